"""Values before they were rounded for the dump, and gates next to zero."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from judged_output import H, V, W, acted, context, judged
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import Guilt, TensorIO


def test_values_before_they_were_rounded_explain_what_cancels() -> None:
    error = np.float32(0.05) * W
    known = context()
    known.arithmetic.drawn = [V - error, V - 2 * error]
    found, split = judged(V + error, V, H, known=known)
    assert split.guilt is Guilt.NONE
    widened = acted(found, "pre-rounding perturbation")
    assert widened.after == pytest.approx(0.05, rel=0.1)
    assert widened.numbers == {"draws": 1}
    _, split = judged(V + error, V, H)
    assert split.guilt is Guilt.GUILTY


def test_of_several_draws_the_widest_counts() -> None:
    known = context(ops=2)
    known.arithmetic.drawn = [V + np.float32(by) * W for by in (0.01, 0.03, 0.02)]
    found, _ = judged(V + np.float32(0.05) * W, V, H, known=known)
    assert acted(found, "pre-rounding perturbation").after == pytest.approx(0.03, rel=0.1)
    assert len(found.estimate.imitations) == 3  # the emulation, and the two that explain more


def suspicion(data, op):
    """How suspicious an op's output is."""
    (found,) = (
        item.split for item in data.comparisons if item.op == op and item.io is TensorIO.OUTPUT
    )
    return found


def nearly_nothing_left(folder: Path) -> CompareRequest:
    """y = a - 0.99 a; the device computes in float32, but dumps float16."""
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"], name="a"),
            helper.make_node("Mul", ["a", "c"], ["b"], name="b"),
            helper.make_node("Sub", ["a", "b"], ["y"], name="y"),
        ],
        "cancels",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [40, 40])],
        [numpy_helper.from_array(np.array(0.99, np.float32), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(folder / "model.onnx"))
    capture(CaptureRequest(folder / "model.onnx", folder / "golden", seed=3))
    (folder / "device").mkdir()
    for path in (folder / "golden").glob("*.npy"):
        np.save(folder / "device" / path.name, np.load(path).astype(np.float16))
    return CompareRequest(
        folder / "model.onnx", folder / "golden", folder / "model.onnx", folder / "device"
    )


def test_what_was_rounded_for_the_dump_only_explains_what_cancels(tmp_path):
    data = compare(nearly_nothing_left(tmp_path))
    split = suspicion(data, "y")
    assert split.introduced > 0.01  # 50 times what rounding y itself makes
    assert not data.origins
    assert not data.suspects


def test_what_cancels_can_be_wrong_all_the_same(tmp_path):
    request = nearly_nothing_left(tmp_path)
    (path,) = request.device_dump.glob("y.0.*.npy")
    np.save(path, np.load(path) * np.float16(1.5))
    assert [origin.op for origin in compare(request).origins] == ["y"]


@pytest.mark.parametrize(("precision", "kind"), [("fp16", np.float16), ("fp32", np.float32)])
def test_a_gate_next_to_zero_may_open_on_healthy_devices(tmp_path, precision, kind):
    """y = g where a sum is above 0; sums are not dumped, and one is hardly below."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((64, 1)).astype(np.float16).astype(np.float32)
    w = rng.standard_normal((64, 900)).astype(np.float16).astype(np.float32)
    noise = {"fp16": 2.0**-11, "fp32": 2.0**-21}[precision] * np.linalg.norm(x[:, 0] * w[:, 7])
    w[0, 7] = -(0.5 * noise + x[1:, 0].astype(np.float64) @ w[1:, 7]) / x[0, 0]
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "w"], ["xw"], name="xw"),
            helper.make_node("ReduceSum", ["xw", "axis"], ["h"], name="h", keepdims=0),
            helper.make_node("Greater", ["h", "zero"], ["open"], name="open"),
            helper.make_node("Where", ["open", "g", "zero"], ["y"], name="y"),
        ],
        "gate",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [900])],
        [
            numpy_helper.from_array(w, "w"),
            numpy_helper.from_array(np.zeros(1, np.int64), "axis"),
            numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
            numpy_helper.from_array(np.linspace(1, 2, 900, dtype=np.float32), "g"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(tmp_path / "model.onnx"))
    np.save(tmp_path / "x.npy", x)
    capture(CaptureRequest(tmp_path / "model.onnx", tmp_path / "golden", {"x": tmp_path / "x.npy"}))
    (tmp_path / "device").mkdir()
    for name in ("x", "y"):
        for path in (tmp_path / "golden").glob(f"{name}.0.*.npy"):
            value = np.load(path)
            if name == "y":
                assert value[7] == 0
                value[7] = 1 + 7 / 899
            np.save(tmp_path / "device" / path.name, value.astype(kind))
    sides = tmp_path / "model.onnx", tmp_path / "golden", tmp_path / "model.onnx"
    data = compare(CompareRequest(*sides, tmp_path / "device"))
    assert str(data.run.analysis.arithmetic) == precision
    assert not data.origins
    assert not data.suspects
