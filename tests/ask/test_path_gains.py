"""The gain along a path is that of the outputs it goes through, not of an op's worst one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import divergraph as dg


def model(path: Path, factor: float) -> Path:
    """A product split in two: a long way over the first half, a short one over the second."""
    draw = np.random.default_rng(4)
    weight = draw.standard_normal((16, 16)).astype(np.float32)
    weight[:, 8:] *= np.float32(factor)
    weight[:, :8] *= np.float32(1 + (factor - 1) / 10)
    small = draw.standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Split", ["m"], ["low", "high"], "split", axis=1, num_outputs=2),
        helper.make_node("MatMul", ["low", "v"], ["n"], "first"),
        helper.make_node("Neg", ["n"], ["y"], "end"),
        helper.make_node("Neg", ["high"], ["z"], "other"),
    ]
    sizes = {"x": [32, 16], "y": [32, 8], "z": [32, 8]}
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()
    ]
    constants = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(small, "v")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opset = [helper.make_opsetid("", 18)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def test_a_path_over_the_better_output_shows_its_error_and_gain(tmp_path):
    value = tmp_path / "x.npy"
    np.save(value, np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32))
    sides = []
    for name, factor in (("golden", 1.0), ("device", 1.5)):
        graph = model(tmp_path / f"{name}.onnx", factor)
        sides += [graph, dg.capture(graph, tmp_path / name, value).folder]
    run = dg.compare(*sides, precision="fp32")
    low, high = (run.trace("product", to=end).paths[0].steps for end in ("end", "other"))
    over = {steps[1].row.output: steps[1].row for steps in (low, high)}
    assert over[0].metrics.relative_euclidean_distance == pytest.approx(0.05, rel=0.01)
    assert over[1].metrics.relative_euclidean_distance == pytest.approx(0.5, rel=0.01)
    assert over[0].gain < 0.2 < 1.0 < over[1].gain
    assert low[2].row.gain == pytest.approx(1.0, rel=0.1)
