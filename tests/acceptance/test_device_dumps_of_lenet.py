"""The clean LeNet device run, its dumps rewritten: with a fault, or the same in other forms."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from divergraph.comparison import CompareRequest, compare
from divergraph.present.csv_report import report_rows
from divergraph.rootcause.options import MethodChoice
from graphstore.model import TensorIO
from importers.layouts import from_layout, to_layout
from importers.number_formats import DTYPES, layout_number
from importers.proto.messages import dump_data_pb2 as pb
from importers.registry import read_graph

NC1HWC0, ND = layout_number("NC1HWC0"), layout_number("ND")
FLOAT = {np.dtype("f2"): 2, np.dtype("f4"): 1, np.dtype("f8"): 12}


class Dump:
    """One dump file with outputs only, as all of this run are; saved where it lies."""

    def __init__(self, path: Path) -> None:
        raw = path.read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        self.path, self.header, self.arrays = path, pb.DumpData(), []
        self.header.ParseFromString(raw[8:start])
        for made in self.header.output:
            array = np.frombuffer(raw, np.uint8, made.size, start).view(
                DTYPES[made.data_type].numpy
            )
            self.arrays.append(array.reshape(tuple(made.shape.dim)))
            start += made.size

    def save(self, *, padding: int = 0) -> None:
        data = [array.tobytes() + b"\xab" * padding for array in self.arrays]
        for made, array, stored in zip(self.header.output, self.arrays, data, strict=True):
            del made.shape.dim[:]
            made.shape.dim.extend(array.shape)
            made.size = len(stored)
            if array.dtype in FLOAT:
                made.data_type = FLOAT[array.dtype]
        raw = self.header.SerializeToString()
        self.path.write_bytes(len(raw).to_bytes(8, "little") + raw + b"".join(data))


@pytest.fixture
def device(lenet, tmp_path) -> Path:
    """A copy of the clean run's dumps: the folder with the files."""
    copied = shutil.copytree(lenet / "npu_clean" / "dump", tmp_path / "dump")
    (folder,) = {path.parent for path in copied.rglob("*") if path.is_file()}
    return folder


def request(lenet: Path, device: Path) -> CompareRequest:
    graph = lenet / "npu_clean" / "graph"
    return CompareRequest(
        lenet / "model.ckpt.meta",
        lenet / "golden",
        graph,
        device,
        method=MethodChoice.THRESHOLDS,  # the faults are in dumps: ops run again make none
    )


def dump_of(device: Path, op: str) -> Dump | None:
    found = list(device.glob(f"*.{op.replace('/', '_')}.*"))
    return Dump(found[0]) if found else None


def descendants(lenet: Path, op: str) -> Iterator[str]:
    (path,) = (lenet / "npu_clean" / "graph").iterdir()
    fed: dict[str, list[str]] = {}
    for edge in read_graph(path).edges():
        fed.setdefault(edge.source, []).append(edge.target)
    seen, waiting = {op}, deque([op])
    while waiting:
        for target in fed.get(waiting.popleft(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
                yield target


def zero_tail(array: np.ndarray) -> np.ndarray:
    flat = array.reshape(-1).copy()
    flat[len(flat) // 2 :] = 0
    return flat.reshape(array.shape)


def some_nan(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.reshape(-1)[::7] = np.nan
    return changed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "port", "change", "golden"),
    [
        ("IteratorGetNext", 0, zero_tail, "IteratorGetNext"),
        ("LeNet/conv1/Conv2DRelu", 0, lambda array: array * 1.2, "LeNet/conv1/Relu"),
        ("LeNet/pool1/MaxPool", 0, lambda array: array[::-1].copy(), "LeNet/pool1/MaxPool"),
        ("LeNet/fc3/MatMul", 0, some_nan, "LeNet/fc3/Relu"),
        (
            "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits",
            1,
            zero_tail,
            "SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits",
        ),
        ("trans_TransData_0", 0, zero_tail, "IteratorGetNext"),
        ("learning_rate_schedule/and", 0, lambda array: ~array, "learning_rate_schedule/and"),
    ],
)
def test_a_fault_is_found_where_it_starts(
    lenet: Path,
    device: Path,
    op: str,
    port: int,
    change: Callable[[np.ndarray], np.ndarray],
    golden: str,
) -> None:
    random = np.random.default_rng(7)
    dump = dump_of(device, op)
    assert dump is not None
    dump.arrays[port] = change(dump.arrays[port]).astype(dump.arrays[port].dtype)
    dump.save()
    for other in (dump_of(device, name) for name in descendants(lenet, op)):
        for number, array in enumerate(other.arrays if other else ()):
            if array.dtype.kind == "f":
                size = np.sqrt(np.square(array, dtype=np.float64).mean())
                noise = 0.3 * size * random.standard_normal(array.shape)
                other.arrays[number] = (array + noise).astype(array.dtype)
        if other:
            other.save()
    first = compare(request(lenet, device)).origins[0]
    assert (first.op, first.output) == (op, port)
    assert first.golden[0].op == golden


def numbers(lenet: Path, device: Path) -> dict[str, list[str]]:
    """The report's rows of outputs that were compared, by tensor."""
    header, *rows = report_rows(compare(request(lenet, device)))
    at, first = header.index("TensorIndex"), header.index("CosineSimilarity")
    # Types and addresses may differ, the numbers may not.
    return {row[at]: row[first:] for row in rows if f":{TensorIO.OUTPUT}:" in row[at]}


def as_plain(dump: Dump) -> None:
    for number, made in enumerate(dump.header.output):
        if made.format == NC1HWC0:
            shape = tuple(made.original_shape.dim)
            plain = to_layout(dump.arrays[number], "NC1HWC0", "NHWC")
            layout = "NHWC" if plain.shape[1:3] == shape[1:3] else "NCHW"
            dump.arrays[number] = to_layout(dump.arrays[number], "NC1HWC0", layout, shape)
            made.format = layout_number(layout)


def as_fractal(dump: Dump) -> None:
    for number, (made, array) in enumerate(zip(dump.header.output, dump.arrays, strict=True)):
        if made.format == ND and array.ndim == 2:
            del made.original_shape.dim[:]
            made.original_shape.dim.extend(array.shape)
            dump.arrays[number] = from_layout(array, "ND", "FRACTAL_NZ")
            made.format = layout_number("FRACTAL_NZ")


def as_wide(dump: Dump) -> None:
    for number, array in enumerate(dump.arrays):
        if array.dtype.kind == "f":
            dump.arrays[number] = array.astype(np.float64)


def unshaped(dump: Dump) -> None:
    for made in dump.header.output:
        del made.original_shape.dim[:]


@pytest.mark.slow
@pytest.mark.parametrize("form", [as_plain, as_fractal, as_wide, unshaped])
def test_the_same_values_in_another_form_compare_the_same(lenet, device, form):
    before = numbers(lenet, device)
    assert len(before) > 120
    for path in device.iterdir():
        dump = Dump(path)
        form(dump)
        dump.save(padding=32)
        # The older form of the name has no stream, and an older dump lies beside.
        kind, name, task, _, stamp = path.name.split(".")
        path.rename(path.with_name(f"{kind}.{name}.{task}.{stamp}"))
        path.with_name(f"{kind}.{name}.1.1.{int(stamp) - 1}").write_bytes(b"cut")
    after = numbers(lenet, device)
    assert after == before
