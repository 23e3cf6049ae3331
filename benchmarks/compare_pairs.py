"""Time and memory of comparing many tensor pairs, beside two plain numpy ways.

    python benchmarks/compare_pairs.py [--pairs 200] [--elements 1000000] [--rounds 3]

Makes the pairs as .npy files in a temporary folder, then runs each way in a process of
its own, in turn, and takes the best CPU time of the rounds:

* ours: the product's reader, all ten metrics and the figures;
* blocked: numpy in blocks of 64k elements with shared float64 temporaries, 22 slots
  (norms, dot product, errors, extremes, counts, positions), no divergence; one BLAS thread;
* naive: one whole-array float64 pass a metric, the ten metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

BLOCK = 65_536
WAYS = ("ours", "blocked", "naive")


def main() -> None:
    options = _options()
    if options.measure:
        print(json.dumps(_measured(options.measure, options.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="compare_pairs_") as name:
        folder = Path(name)
        _make(folder, options.pairs, options.elements)
        best: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for way in WAYS:
                result = _child(way, folder)
                if way not in best or result["cpu"] < best[way]["cpu"]:
                    best[way] = result
    _print(best, options.pairs * options.elements)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _make(folder: Path, pairs: int, elements: int) -> None:
    random = np.random.default_rng(7)
    for pair in range(pairs):
        golden = random.standard_normal(elements, dtype=np.float32)
        noise = random.standard_normal(elements, dtype=np.float32)
        np.save(folder / f"golden.{pair}.npy", golden)
        np.save(folder / f"device.{pair}.npy", golden + np.float32(1e-3) * noise)


def _child(way: str, folder: Path) -> dict[str, float]:
    environment = dict(os.environ)
    if way != "ours":
        environment["OPENBLAS_NUM_THREADS"] = "1"
    command = [sys.executable, __file__, "--measure", way, "--folder", str(folder)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _measured(way: str, folder: Path) -> dict[str, float]:
    compare = {"ours": _ours, "blocked": _blocked, "naive": _naive}[way]()
    paths = [(path, path.with_name(f"golden{path.name[6:]}")) for path in folder.glob("device.*")]
    before = _peak()
    wall, cpu = time.perf_counter(), time.process_time()
    for device, golden in paths:
        compare(device, golden)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "memory": _peak() - before,
    }


def _peak() -> float:
    """Peak resident memory of this process in MiB, mapped files included."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would start at the size of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _ours() -> Callable[[Path, Path], object]:
    from divergraph.metrics.measure import measure
    from divergraph.metrics.sweep import Sweeper
    from graphstore.model import DType, DumpFormat, DumpTensorRef, TensorIO
    from importers.dumps.arrays.npy import read_npy_header
    from importers.dumps.read import read_array

    def read(path: Path) -> NDArray[np.generic]:
        with path.open("rb") as file:
            header = read_npy_header(file.fileno(), path.stat().st_size)
        ref = DumpTensorRef(
            path,
            DumpFormat.NPY,
            "op",
            TensorIO.OUTPUT,
            0,
            DType.FLOAT32,
            header.shape,
            offset=header.data_offset,
            nbytes=header.nbytes,
        )
        return read_array(ref)

    sweeper = Sweeper()
    return lambda device, golden: measure(read(device), read(golden), sweeper=sweeper)


def _blocked() -> Callable[[Path, Path], object]:
    rooms = [np.empty(BLOCK) for _ in range(5)]

    def blocks(x: Array, y: Array) -> Iterator[tuple[float, ...]]:
        for start in range(0, len(x), BLOCK):
            yield _slots(x[start : start + BLOCK], y[start : start + BLOCK], rooms)

    def compare(device: Path, golden: Path) -> object:
        return list(blocks(np.load(device, mmap_mode="r"), np.load(golden, mmap_mode="r")))

    return compare


def _slots(x32: Array, y32: Array, rooms: list[NDArray[np.float64]]) -> tuple[float, ...]:
    x, y, error, ratio, bound = (room[: len(x32)] for room in rooms)
    np.copyto(x, x32)
    np.copyto(y, y32)
    finite_x, finite_y = np.isfinite(x32), np.isfinite(y32)
    finite = finite_x & finite_y
    np.subtract(x, y, out=error)
    square = error.dot(error)
    np.abs(error, out=error)
    np.abs(y, out=ratio)
    np.multiply(ratio, 1e-5, out=bound)
    close = error <= bound
    np.divide(error, ratio, out=ratio)
    return (
        np.count_nonzero(finite),
        len(x) - np.count_nonzero(finite_x),
        len(x) - np.count_nonzero(finite_y),
        x.sum(),
        y.sum(),
        x.dot(x),
        y.dot(y),
        x.dot(y),
        square,
        error.sum(),
        error.max(),
        error.argmax(),
        ratio.sum(),
        ratio.max(),
        np.count_nonzero(close),
        close.argmin(),
        x32.min(),
        x32.max(),
        y32.min(),
        y32.max(),
        np.count_nonzero(x32 != 0),
        np.count_nonzero(y32 != 0),
    )


def _naive() -> Callable[[Path, Path], object]:
    def compare(device: Path, golden: Path) -> object:
        x32, y32 = np.load(device), np.load(golden)
        return [metric(x32.astype("f8"), y32.astype("f8")) for metric in NAIVE]

    return compare


def _relative(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(y) > 2.2e-16, np.abs(x / y - 1), 0)


def _divergence(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    p, q = (np.maximum((v - v.min()) / (v.max() - v.min()), 1.19e-7) for v in (x, y))
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())


NAIVE: tuple[Callable[..., object], ...] = (
    lambda x, y: (x / np.sqrt((x**2).sum()) * (y / np.sqrt((y**2).sum()))).sum(),
    lambda x, y: np.abs(x - y).max(),
    lambda x, y: _relative(x, y).sum(),
    lambda x, y: np.sqrt(((x - y) ** 2).sum() / (y**2).sum()),
    _divergence,
    lambda x, y: (x.mean(), x.std(), y.mean(), y.std()),
    lambda x, y: np.abs(x - y).mean(),
    lambda x, y: np.sqrt(((x - y) ** 2).mean()),
    lambda x, y: _relative(x, y).max(),
    lambda x, y: _relative(x, y).mean(),
)


def _print(best: dict[str, dict[str, float]], pairs: int) -> None:
    print(f"{'':10}{'wall s':>9}{'CPU s':>9}{'M pairs/s':>12}{'to blocked':>12}{'peak MiB':>10}")
    for way, result in best.items():
        ratio = result["cpu"] / best["blocked"]["cpu"]
        print(
            f"{way:10}{result['wall']:9.2f}{result['cpu']:9.2f}"
            f"{pairs / result['cpu'] / 1e6:12.0f}{ratio:12.2f}{result['memory']:10.0f}"
        )


if __name__ == "__main__":
    main()
