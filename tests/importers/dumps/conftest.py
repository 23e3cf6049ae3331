"""Writers of small dump files and graphs for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from graphstore.model import DType, Framework, GraphKind, InputRef, ModelGraph, Op, Tensor
from importers.number_formats import layout_number
from importers.proto.messages import dump_data_pb2 as pb

NUMBERS = {
    DType.FLOAT32: 1,
    DType.FLOAT16: 2,
    DType.INT8: 3,
    DType.INT32: 7,
    DType.INT64: 8,
    DType.BOOL: 11,
    DType.FLOAT64: 12,
    DType.STRING: 13,
    DType.BFLOAT16: 27,
    DType.INT4: 28,
    DType.UINT1: 29,
}


@dataclass(frozen=True)
class Dumped:
    """One tensor to write; ``shape`` and ``size`` default to those of ``data``."""

    data: np.ndarray
    dtype: DType | int = DType.FLOAT32
    layout: str = "ND"
    shape: tuple[int, ...] | None = None
    original_shape: tuple[int, ...] = ()
    size: int | None = None
    groups: int = 0
    address: int = 0


def _fill(entry: pb.OpInput | pb.OpOutput, tensor: Dumped) -> None:
    number = tensor.dtype if type(tensor.dtype) is int else NUMBERS[DType(tensor.dtype)]
    entry.data_type = number
    entry.format = layout_number(tensor.layout)
    entry.shape.dim.extend(tensor.data.shape if tensor.shape is None else tensor.shape)
    entry.original_shape.dim.extend(tensor.original_shape)
    entry.size = tensor.data.nbytes if tensor.size is None else tensor.size
    entry.sub_format = tensor.groups
    entry.address = tensor.address


@pytest.fixture
def dumped() -> type[Dumped]:
    """Describes one tensor to write."""
    return Dumped


@pytest.fixture
def write_dump() -> Callable[..., Path]:
    """Writes one Ascend dump file, version 2, and returns its path."""

    def write(
        path: Path,
        outputs: Sequence[Dumped] = (),
        inputs: Sequence[Dumped] = (),
        op_name: str = "",
    ) -> Path:
        header = pb.DumpData(version=b"2.0", op_name=op_name.encode())
        for tensor in inputs:
            _fill(header.input.add(), tensor)
        for tensor in outputs:
            _fill(header.output.add(), tensor)
        raw = header.SerializeToString()
        data = b"".join(tensor.data.tobytes() for tensor in (*inputs, *outputs))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
        return path

    return write


@pytest.fixture
def graph_of() -> Callable[..., ModelGraph]:
    """Makes a graph from ``name: type`` or whole ops."""

    def make(*ops: Op | tuple[str, str], inputs: Sequence[str] = ()) -> ModelGraph:
        made = tuple(op if isinstance(op, Op) else make_op(*op) for op in ops)
        return ModelGraph(
            name="net",
            kind=GraphKind.DEVICE,
            framework=Framework.ASCEND,
            format="test",
            ops=made,
            inputs=tuple(Tensor(name) for name in inputs),
        )

    return make


def make_op(
    name: str,
    op_type: str = "Add",
    outputs: Sequence[Tensor | str] = ("",),
    subgraph: str = "",
    inputs: Sequence[str | None] = (),
) -> Op:
    return Op(
        id=f"{subgraph}/{name}" if subgraph else name,
        name=name,
        type=op_type,
        inputs=tuple(None if given is None else InputRef(given) for given in inputs),
        outputs=tuple(out if isinstance(out, Tensor) else Tensor(out) for out in outputs),
        subgraph=subgraph,
    )


@pytest.fixture
def op() -> Callable[..., Op]:
    """Makes one op with named outputs."""
    return make_op
