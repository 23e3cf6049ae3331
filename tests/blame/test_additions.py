"""Running a model with something added inside, or with other attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.execute.contract import Additive, Alterable, RunnableSubgraph
from divergraph.execute.onnx.executor import OnnxRuntimeExecutor
from graphstore.errors import InputError
from importers.onnx_model.importer import OnnxImporter

Array = np.ndarray[Any, Any]


@pytest.fixture
def executor(tmp_path: Path) -> OnnxRuntimeExecutor:
    """y = relu(conv(x)) summed over each channel, and which channel is largest."""
    weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("ReduceMean", ["r"], ["y"], "mean", axes=[2, 3], keepdims=0),
            helper.make_node("ArgMax", ["y"], ["best"], "best", axis=1),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("best", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "m.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return OnnxRuntimeExecutor(path, OnnxImporter().read(path))


def x() -> Array:
    return np.random.default_rng(1).standard_normal((1, 2, 6, 6)).astype(np.float32)


def test_what_is_added_changes_all_that_follows(executor: OnnxRuntimeExecutor) -> None:
    assert isinstance(executor, Additive)
    plain = dict(executor.run({"x": x()}))
    model = executor.with_additions({"x": x()}, ["c", "r"], ["y"])
    assert np.array_equal(model.run({})["y"], plain["y"])
    error = np.random.default_rng(2).standard_normal(plain["c"].shape).astype(np.float32)
    wanted = np.maximum(plain["c"] + error, 0).mean(axis=(2, 3))
    assert np.allclose(model.run({"c": error})["y"], wanted, atol=1e-6)
    both = model.run({"c": error, "r": np.float32(1)})["y"]
    assert np.allclose(both, wanted + 1, atol=1e-6)
    assert np.array_equal(model.run({})["y"], plain["y"])


def test_nothing_is_added_to_integers_or_to_what_is_not_there(
    executor: OnnxRuntimeExecutor,
) -> None:
    assert executor.with_additions({"x": x()}, ["c", "best"], ["y"]).tensors == ("c",)
    with pytest.raises(InputError, match="nowhere"):
        executor.with_additions({"x": x()}, ["nowhere"], ["y"])


def test_an_op_is_run_with_other_attributes(executor: OnnxRuntimeExecutor) -> None:
    assert isinstance(executor, Alterable)
    subgraph = RunnableSubgraph("p", ("x",), ("r",))
    moved = executor.run_altered(subgraph, {"x": x()}, "c", {"pads": (1, 0, 1, 2)})
    shifted = np.roll(dict(executor.run({"x": x()}))["r"], -1, axis=3)
    assert moved is not None
    assert np.allclose(moved["r"][..., :-1], shifted[..., :-1], atol=1e-5)
    assert executor.run_altered(subgraph, {"x": x()}, "c", {"kernel_shape": (9, 9)}) is None
