"""Tensors that are longer on the device because other ops were wrong before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Guilt, Reason


def chosen_places(path: Path, comparison: str) -> Path:
    """Where x is greater (or less) than y, and how many places that are."""
    nodes = [
        helper.make_node(comparison, ["x", "y"], ["mask"], name="choose"),
        helper.make_node("NonZero", ["mask"], ["places"], name="places"),
        helper.make_node("Shape", ["places"], ["count"], name="count"),
    ]
    sides = [helper.make_tensor_value_info(each, TensorProto.FLOAT, [6, 7]) for each in "xy"]
    result = helper.make_tensor_value_info("count", TensorProto.INT64, [2])
    graph = helper.make_graph(nodes, "places", sides, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def test_ops_that_count_what_a_wrong_op_chose_are_not_to_blame(tmp_path: Path):
    x = np.linspace(0, 1, 42, dtype=np.float32).reshape(6, 7)
    inputs = {"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"}
    np.save(inputs["x"], x)
    np.save(inputs["y"], np.full_like(x, 0.8))
    for side, comparison in (("golden", "Greater"), ("device", "Less")):
        chosen_places(tmp_path / f"{side}.onnx", comparison)
        capture(CaptureRequest(tmp_path / f"{side}.onnx", tmp_path / side, inputs=inputs))
    golden, device = tmp_path / "golden", tmp_path / "device"
    data = compare(
        CompareRequest(golden.with_suffix(".onnx"), golden, device.with_suffix(".onnx"), device)
    )
    reasons = {each.op: each.reason for each in data.comparisons if not each.compared}
    assert reasons == {"places": Reason.SHAPE_MISMATCH}
    assert [each.op for each in data.origins] == ["choose"]
    guilty = {
        each.op for each in data.comparisons if each.split and each.split.guilt is Guilt.GUILTY
    }
    assert guilty == {"choose"}
