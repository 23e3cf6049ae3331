"""The same tensor pairs in the file kinds that the compared tools read."""

from __future__ import annotations

import json
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ELEMENTS = {"large": 1_000_000, "tiny": 1_024}

_STAMP = 1_664_180_560_000_000
_ND, _FLOAT = 2, 0

_TO_POLYGRAPHY = """
import sys
from pathlib import Path
import numpy as np
from polygraphy.comparator import RunResults
for side in ("device", "golden"):
    results = RunResults()
    values = {path.name.split(".")[0]: np.load(path) for path in Path(side).iterdir()}
    results.add([values], runner_name=side)
    results.save(f"{side}.json")
"""


@dataclass(frozen=True)
class Case:
    """Pairs on disk: ``.npy`` on both sides, and what the peers need besides."""

    folder: Path
    pairs: int
    elements: int

    @property
    def title(self) -> str:
        """How the table names it."""
        size = "1M" if self.elements == ELEMENTS["large"] else f"{self.elements * 4 // 1024} KB"
        return f"{self.pairs:,} x {size} float32"

    @property
    def device(self) -> Path:
        """The device side as ``.npy`` files."""
        return self.folder / "device"

    @property
    def golden(self) -> Path:
        """The golden side as ``.npy`` files."""
        return self.folder / "golden"

    @property
    def nano(self) -> Path:
        """The device side in the one binary form that msaccucmp reads without CANN."""
        return self.folder / "nano"

    @property
    def fusion(self) -> Path:
        """The model that ties device ops to golden ones, for msaccucmp."""
        return self.folder / "ge.json"

    def polygraphy(self, python: Path) -> list[Path] | None:
        """Both sides as results of Polygraphy, made by Polygraphy; None if it fails."""
        files = [self.folder / "device.json", self.folder / "golden.json"]
        if not all(path.exists() for path in files):
            command = [str(python), "-c", _TO_POLYGRAPHY]
            if subprocess.run(command, cwd=self.folder, check=False).returncode:
                return None
        return files


def make_case(folder: Path, pairs: int, elements: int) -> Case:
    """Random pairs that differ by a thousandth, written into *folder*."""
    case = Case(folder, pairs, elements)
    for path in (case.device, case.golden, case.nano):
        path.mkdir(parents=True)
    random = np.random.default_rng(7)
    ops = []
    for number in range(pairs):
        golden = random.standard_normal(elements, dtype=np.float32)
        noise = random.standard_normal(elements, dtype=np.float32)
        device = golden + np.float32(1e-3) * noise
        name = f"op{number}"
        np.save(case.golden / f"{name}.0.{_STAMP}.npy", golden)
        np.save(case.device / f"{name}.0.{_STAMP}.npy", device)
        (case.nano / f"Relu.{name}.1.1.{_STAMP}").write_bytes(_nano(device))
        ops.append(_op(name, number, elements))
    case.fusion.write_text(json.dumps({"name": "pairs", "graph": [{"name": "pairs", "op": ops}]}))
    return case


def make_huge(folder: Path, size: float) -> tuple[Path, Path]:
    """Two ``.npy`` files of *size* GB that differ by a thousandth: device, golden."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    golden = random.standard_normal(5_000_000, dtype=np.float32)
    device = golden + np.float32(1e-3) * random.standard_normal(len(golden), dtype=np.float32)
    times = max(1, round(size * 1e9 / golden.nbytes))
    paths = folder / "device.npy", folder / "golden.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (times, len(golden))}
    for path, part in zip(paths, (device, golden), strict=True):
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(times):
                file.write(part)
    return paths


def _nano(array: np.ndarray) -> bytes:
    """A dump file of a Nano chip with one output."""
    dims = b""
    for tag in (0, 1):
        dims += struct.pack(f"<II{array.ndim}Q", tag, 8 * array.ndim, *array.shape)
    dims += struct.pack("<II4s", 2, 4, b"orig")
    entry = struct.pack("<6i", _FLOAT, _ND, 0, 0, _FLOAT, _ND)
    entry += struct.pack("<3QI", 4096, 0, array.nbytes, len(dims)) + dims
    entries = struct.pack("<I", 1) + entry
    none = struct.pack("<I", 0)
    head = struct.pack("<II", 0x5A5A5A5A, 0)
    head += struct.pack("<II", 4, len(none)) + none
    head += struct.pack("<II", 5, len(entries)) + entries
    return struct.pack("<Q", len(head)) + head + array.tobytes()


def _op(name: str, number: int, elements: int) -> dict[str, object]:
    described = {"dtype": "DT_FLOAT", "layout": "ND", "shape": {"dim": [elements]}}
    origin = {
        "_datadump_origin_name": {"s": name},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": "ND"},
        "_datadump_data_type": {"s": "DT_FLOAT"},
    }
    return {
        "name": name,
        "type": "Relu",
        "id": number,
        "input": [f"op{number - 1}:0"] if number else [],
        "input_desc": [described] if number else [],
        "output_desc": [
            described | {"attr": [{"key": key, "value": value} for key, value in origin.items()]}
        ],
        "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": [name]}}}],
    }
