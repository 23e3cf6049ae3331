"""Long weights stay in the model's file and come out of it as they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.execute.contract import Executor, RunnableSubgraph
from divergraph.execute.installed import open_executor
from divergraph.execute.onnx.weights import load_without_weights
from graphstore.errors import ExecutionError
from importers.registry import read_graph

_SIZE = 300  # 300 x 300 float32 are more than a small file


def _weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "w": rng.standard_normal((_SIZE, _SIZE)).astype(np.float32),
        "h": rng.standard_normal((_SIZE, _SIZE)).astype(np.float16),
        "short": np.ones(_SIZE, np.float32),
    }


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = x.w + h + short; the name of the graph decides where in the file values begin."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Cast", ["h"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["m", "wide"], ["a"]),
        helper.make_node("Add", ["a", "short"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in _weights().items()]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIZE, _SIZE]) for name in "xy"
    ]
    graph = helper.make_graph(nodes, "odd", [ports[0]], [ports[1]], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    return path


def _executor(path: Path) -> Executor:
    return open_executor(path, read_graph(path))


def test_only_long_values_are_left_in_the_file_wherever_they_begin(model: Path) -> None:
    offsets = set()
    for length in range(1, 5):
        made = onnx.load(model)
        made.graph.name = "n" * length
        onnx.save(made, model)
        light, stored = load_without_weights(model)
        assert set(stored.places) == {"w", "h"}
        assert light.ByteSize() < model.stat().st_size // 100
        for name in stored.places:
            np.testing.assert_array_equal(stored.read(name), _weights()[name])
        offsets.add(stored.places["w"].offset % 4)
    assert len(offsets) == 4


def test_ops_run_with_them_as_with_any(model: Path) -> None:
    executor, weights = _executor(model), _weights()
    x = np.eye(_SIZE, dtype=np.float32)
    right = weights["w"] + weights["h"].astype(np.float32) + weights["short"]
    np.testing.assert_array_equal(dict(executor.run({"x": x}))["y"], right)
    subgraphs = [
        RunnableSubgraph("y", ("x",), ("y",)),
        RunnableSubgraph("w", (), ("w",)),
        RunnableSubgraph("h", (), ("h",)),
    ]
    found = {
        each.key: each.values[each.key]
        for each in executor.run_subgraphs(subgraphs, lambda _: {"x": x})
    }
    np.testing.assert_array_equal(found["y"], right)
    np.testing.assert_array_equal(found["w"], weights["w"])
    np.testing.assert_array_equal(found["h"], weights["h"])
    executor.close()


def test_old_models_that_list_weights_among_their_inputs_run_too(model: Path) -> None:
    made = onnx.load(model)
    made.ir_version = 3
    for tensor in made.graph.initializer:
        made.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.save(made, model)
    x = np.zeros((_SIZE, _SIZE), np.float32)
    found = dict(_executor(model).run({"x": x}))
    weights = _weights()
    np.testing.assert_array_equal(found["y"], weights["h"].astype(np.float32) + weights["short"])


def test_a_model_behind_a_link_runs(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "linked.onnx"
    link.symlink_to(model)
    found = dict(_executor(link).run({"x": np.zeros((_SIZE, _SIZE), np.float32)}, ["wide"]))
    np.testing.assert_array_equal(found["wide"], _weights()["h"])


def test_a_model_written_anew_while_it_is_in_use_is_refused(model: Path) -> None:
    executor = _executor(model)
    os.utime(model, (1, 1))
    subgraphs = [RunnableSubgraph("w", (), ("w",))]
    (found,) = executor.run_subgraphs(subgraphs, lambda _: {})
    assert "model.onnx was rewritten while it was in use" in found.failure
    with pytest.raises(ExecutionError, match="rewritten"):
        dict(executor.run({"x": np.zeros((_SIZE, _SIZE), np.float32)}))
