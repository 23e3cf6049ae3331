"""Small ONNX models with everything an executor has to cope with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.execute.contract import Array, Executor
from divergraph.execute.installed import open_executor
from importers.registry import read_graph

Made = Callable[..., Path]


def float_info(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    """A float input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape or None)


@pytest.fixture
def make_model(tmp_path: Path) -> Made:
    """Write a model of *nodes* with float inputs ``x`` (2x4) and weights, return its path."""

    def make(
        *nodes: onnx.NodeProto,
        outputs: tuple[str, ...] = (),
        weights: Mapping[str, Array] | None = None,
        external: bool = False,
        name: str = "model.onnx",
        opset: int = 17,
    ) -> Path:
        tensors = [
            numpy_helper.from_array(np.asarray(value), key)
            for key, value in (weights or {}).items()
        ]
        graph = helper.make_graph(
            list(nodes),
            "small",
            [float_info("x", 2, 4)],
            [float_info(each) for each in outputs or (nodes[-1].output[0],)],
            tensors,
        )
        sets = [helper.make_opsetid("", opset)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=8)
        path = tmp_path / name
        onnx.save_model(
            model,
            str(path),
            save_as_external_data=external,
            location="weights.bin" if external else None,
            size_threshold=0,
        )
        return path

    return make


@pytest.fixture
def opened() -> Callable[[Path], Executor]:
    """Open a model file."""
    return lambda path: open_executor(path, read_graph(path))


@pytest.fixture
def x() -> Array:
    """A value for the input ``x``."""
    return np.arange(8, dtype=np.float32).reshape(2, 4) - 3
