"""Result folders whose files tell neither shape nor order of axes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import divergraph as dg

SHAPE = (1, 4, 4, 4)
"""Equal sizes: the shape does not tell where the channels lie."""


@pytest.fixture
def paths(tmp_path):
    """Three ops, their golden dump, and what a device gives with channels last."""
    rng = np.random.default_rng(0)
    weights = helper.make_tensor(
        "w", TensorProto.FLOAT, [4, 4, 1, 1], rng.standard_normal(16).astype(np.float32).tolist()
    )
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Sigmoid", ["b"], ["y"], "sigmoid"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = tmp_path / "model.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph)), model)
    x = rng.standard_normal(SHAPE).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    dg.capture(model, tmp_path / "golden", tmp_path / "x.npy")
    results = tmp_path / "out" / "Result_0"
    results.mkdir(parents=True)
    tensors = {"x": x}
    for tensor, op in (("a", "conv"), ("b", "relu"), ("y", "sigmoid")):
        tensors[tensor] = np.load(next((tmp_path / "golden").glob(f"{op}.0.*.npy")))
    for tensor, array in tensors.items():
        array.transpose(0, 2, 3, 1).tofile(results / f"{tensor}.raw")
    return model, tmp_path / "golden", model, results


def errors(run: dg.Run) -> dict[str, float]:
    measured = [row for row in run.ops() if row.metrics is not None]
    return {row.name: row.metrics.relative_euclidean_distance for row in measured}


def test_the_values_tell_that_channels_lie_last(paths):
    run = dg.compare(*paths, precision="fp32")
    assert run.verdict == "clean"
    assert errors(run) == {"conv": 0.0, "relu": 0.0, "sigmoid": 0.0}


def test_the_values_tell_that_one_tensor_lies_as_in_the_model(paths):
    golden = np.load(next(paths[1].glob("sigmoid.0.*.npy")))
    golden.tofile(paths[3] / "y.raw")
    assert errors(dg.compare(*paths, precision="fp32"))["sigmoid"] == 0.0


def test_of_wrong_values_the_other_tensors_tell(paths):
    """Of other numbers no order is near, so that of most tensors is taken."""
    noise = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32)
    noise.transpose(0, 2, 3, 1).tofile(paths[3] / "b.raw")
    np.full(SHAPE, 9, np.float32).tofile(paths[3] / "y.raw")
    run = dg.compare(*paths, precision="fp32")
    assert run.origins[0].origin.op == "relu"
    golden = np.load(next(paths[1].glob("relu.0.*.npy")))
    apart = np.linalg.norm(noise - golden) / np.linalg.norm(golden)
    assert errors(run)["conv"] == 0.0
    assert errors(run)["relu"] == pytest.approx(apart)
