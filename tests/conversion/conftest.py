"""Dump files and the command line for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from importers.number_formats import layout_number
from importers.proto.messages import dump_data_pb2 as pb

NUMBERS = {"float32": 1, "float16": 2, "int8": 3, "int32": 7, "int64": 8, "bool": 11, "float64": 12}
STAMP = 1664180560000000


@dataclass(frozen=True)
class Tensor:
    """One tensor of a dump to write; ``number`` and ``shape`` default to those of ``data``."""

    data: np.ndarray
    layout: str = "ND"
    original_shape: tuple[int, ...] = ()
    number: int | None = None
    shape: tuple[int, ...] | None = None
    groups: int = 0


def _fill(entry: Any, tensor: Tensor) -> None:
    number = NUMBERS[tensor.data.dtype.name] if tensor.number is None else tensor.number
    entry.data_type = number
    entry.format = layout_number(tensor.layout)
    entry.shape.dim.extend(tensor.data.shape if tensor.shape is None else tensor.shape)
    entry.original_shape.dim.extend(tensor.original_shape)
    entry.size = tensor.data.nbytes
    entry.sub_format = tensor.groups


@pytest.fixture
def tensor() -> type[Tensor]:
    """Describes one tensor of a dump to write."""
    return Tensor


@pytest.fixture
def write_dump() -> Callable[..., Path]:
    """Writes an Ascend dump file, version 2, and returns its path."""

    def write(
        path: Path,
        *outputs: Tensor | np.ndarray,
        inputs: Sequence[Tensor | np.ndarray] = (),
        op_name: str = "",
        buffers: Sequence[bytes] = (),
        spaces: Sequence[bytes] = (),
    ) -> Path:
        header = pb.DumpData(version=b"2.0", op_name=op_name.encode())
        given = [each if isinstance(each, Tensor) else Tensor(each) for each in inputs]
        made = [each if isinstance(each, Tensor) else Tensor(each) for each in outputs]
        for each in given:
            _fill(header.input.add(), each)
        for each in made:
            _fill(header.output.add(), each)
        for data in buffers:
            header.buffer.add(size=len(data))
        for data in spaces:
            header.space.add(size=len(data))
        raw = header.SerializeToString()
        data = b"".join([*(each.data.tobytes() for each in (*given, *made)), *buffers, *spaces])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
        return path

    return write


@pytest.fixture
def stamp() -> int:
    """The time in the names of dump files."""
    return STAMP


@pytest.fixture(scope="session")
def text_model(tmp_path_factory) -> Path:
    """A ge_proto text with a body, control edges, a fused op and a scalar."""
    path = tmp_path_factory.mktemp("ge") / "ge_proto_00000001_graph_1_Build.txt"
    path.write_text(GE_TEXT)
    return path


GE_TEXT = r"""
graph {
  name: "net_1"
  input: "x:0"
  op {
    name: "x"
    type: "Data"
    input: ""
    output_desc { dtype: DT_FLOAT shape { dim: 1 dim: 3 dim: -1 } layout: "NCHW" }
  }
  op {
    name: "scope/call"
    type: "PartitionedCall"
    input: "x:0"
    id: 1
    output_desc { dtype: DT_FLOAT16 shape { dim: -2 } layout: "NC1HWC0" }
    subgraph_name: "body"
  }
  op {
    name: "relu \"quoted\" \303\244"
    type: "Relu"
    input: "scope/call:0"
    input: "x:-1"
    attr {
      key: "_datadump_original_op_names"
      value { list { s: "conv1" s: "relu1" val_type: VT_LIST_STRING } }
    }
    attr { key: "alpha" value { f: 0.1 } }
    attr {
      key: "pads"
      value { list_list_int { list_list_i { list_i: 1 list_i: 2 } list_list_i { } } }
    }
    attr { key: "flag" value { b: false } }
    attr { key: "count" value { i: -3 } }
    attr { key: "nothing" value { list { val_type: VT_LIST_STRING } } }
    id: 2
    input_desc { dtype: DT_FLOAT16 layout: "NC1HWC0" }
    output_desc {
      dtype: DT_FLOAT16
      shape { }
      layout: "NC1HWC0"
      attr { key: "_datadump_origin_name" value { s: "relu1" } }
      attr { key: "_datadump_origin_output_index" value { i: 0 } }
      attr { key: "origin_shape" value { list { i: 1 i: 64 val_type: VT_LIST_INT } } }
    }
  }
}
graph {
  name: "body"
  op {
    name: "data"
    type: "Data"
    attr { key: "_parent_node_index" value { i: 0 } }
    id: 3
    output_desc { dtype: DT_FLOAT layout: "NCHW" }
  }
  op {
    name: "conv"
    type: "Conv2D"
    input: "data:0"
    attr { key: "_datadump_original_op_names" value { list { val_type: VT_LIST_STRING } } }
    id: 4
    output_desc { dtype: DT_BF16 layout: "NC1HWC0" }
  }
  op {
    name: "out"
    type: "NetOutput"
    input: "conv:0"
    id: 5
    input_desc {
      dtype: DT_BF16 layout: "NC1HWC0"
      attr { key: "_parent_node_index" value { i: 0 } }
    }
  }
}
attr { key: "soc_version" value { s: "Ascend310" } }
"""
