"""Formats that fit a few values by chance."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from graphstore.model import Verdict


def test_two_values_tell_no_format_of_their_product(tmp_path):
    """One of all combinations of formats and sums is near any two values: 3 % of noise in the
    weights of the last layer, which has two classes, were clean, as bfloat16 would have them."""
    draw = np.random.default_rng(11)
    weight = draw.standard_normal((64, 2)).astype(np.float32) / 8
    x = draw.standard_normal((1, 64)).astype(np.float32)
    noisy = (weight * (1 + 0.03 * draw.standard_normal(weight.shape))).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["h"], name="relu"),
            helper.make_node("MatMul", ["h", "w"], ["y"], name="classes"),
        ],
        "two classes",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 2))],
        [numpy_helper.from_array(weight, "w")],
    )
    model = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    h = np.maximum(x, 0)
    for side, own in (("golden", weight), ("device", noisy)):
        (tmp_path / side).mkdir()
        for name, value in (("x", x), ("h", h), ("y", h @ own)):
            np.save(tmp_path / side / f"{name}.npy", value)
    data = compare(CompareRequest(model, tmp_path / "golden", model, tmp_path / "device"))
    assert data.run.verdict is Verdict.DIVERGED
    assert [origin.op for origin in data.origins] == ["classes"]
