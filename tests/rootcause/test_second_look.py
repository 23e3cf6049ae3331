"""Errors over the floor that healthy devices make all the same, and small ones that are none."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from judged_output import context
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances import flushed
from divergraph.rootcause.tolerances import noise_floor as floors
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.gains import gain_floor, inner_gain_floor
from graphstore.model import Guilt, TensorIO


def suspicion(data, op):
    """How suspicious an op's output is."""
    (found,) = (
        item.split for item in data.comparisons if item.op == op and item.io is TensorIO.OUTPUT
    )
    return found


def test_weights_that_are_nothing_in_half_precision_are_no_fault(sides):
    """Dead weights of 1e-33: converters store them as 1e-7, 26 orders of magnitude off."""

    def dead(weights):
        weights["w2"] = np.full_like(weights["w2"], 1e-33)
        weights["b2"] = np.full_like(weights["b2"], 1e-34)

    made = sides(device=StandIn.FP16, both=dead)
    data = compare(made.request)
    assert np.abs(made.value("golden", "conv2")).max() < 1e-30
    assert np.abs(made.value("device_run", "conv2")).max() > 1e-7
    assert not data.origins
    assert not data.suspects


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


def test_a_gain_of_three_per_mille_in_half_precision_is_guilty(sides):
    made = sides(
        lambda w: w.update(w2=w["w2"] * np.float32(1.003), b2=w["b2"] * np.float32(1.003)),
        StandIn.FP16,
    )
    data = compare(made.request)
    assert data.origins[0].op == "conv2"
    assert data.origins[0].suspicion > 10


RNG = np.random.default_rng(4)
VALUES = RNG.standard_normal(4000).astype(np.float32)
HALF = FP16.rounded(VALUES)


def floor_of_gain(device, ops=1):
    told = ToleranceEstimate(VALUES, device, 4e-4, imitations=(HALF,))
    return gain_floor(told, FP16, ops)


def test_only_an_error_along_the_output_has_the_floor_of_a_gain():
    assert floor_of_gain(HALF) == 4e-4
    noise = 0.002 * VALUES * RNG.choice([-1, 1], VALUES.size)
    assert floor_of_gain(VALUES + noise.astype(np.float32)) == 4e-4
    low = floor_of_gain(VALUES * np.float32(1.002))
    assert low < 2e-4
    assert low < floor_of_gain(VALUES * np.float32(1.002), ops=4) <= 4e-4


def test_one_large_value_among_many_is_no_gain():
    device = VALUES.copy()
    spiky = VALUES.copy()
    spiky[7] = device[7] = 1e4
    device[7] *= np.float32(1.002)
    told = ToleranceEstimate(spiky, device, 4e-4, imitations=(FP16.rounded(spiky),))
    assert gain_floor(told, FP16, 1) == 4e-4


def test_a_gain_inside_a_group_is_seen_where_it_moves_the_output():
    inside = RNG.standard_normal(VALUES.size).astype(np.float32)
    ways = [inside / 64, VALUES / 640]
    gain = VALUES + np.float32(0.0015) * inside
    noise = VALUES + 0.0015 * inside * RNG.choice([-1, 1], VALUES.size).astype(np.float32)

    def floor(device):
        told = ToleranceEstimate(VALUES, device, 4e-4, imitations=(HALF,))
        return inner_gain_floor(told, FP16, ways)

    assert floor(noise) == 4e-4
    assert floor(gain) < 2.5e-4


def test_what_makes_numbers_of_nothing_but_nan_is_suspect(sides):
    def nan(value):
        return np.full_like(value, np.nan)

    made = sides()
    made.overwrite("pool", nan)
    made.overwrite("flat", nan)
    data = compare(made.request)
    split = suspicion(data, "matmul")
    assert split.guilt is Guilt.SUSPECT
    assert split.suspicion == math.inf
    assert "matmul" in {each.op for each in data.suspects}
    assert "pool" in {each.op for each in data.origins}
    (finding,) = (each for each in data.findings if each.label == "nan_ignored")
    assert finding.op == "matmul"


def test_a_chunk_too_large_for_memory_is_run_in_halves(sides, monkeypatch):
    """Memory runs out for more than two groups at once."""
    emulated = floors.Emulation.emulated

    def short_of_memory(self, groups, feeds):
        if len(groups) > 2:
            raise MemoryError
        return emulated(self, groups, feeds)

    made = sides(lambda w: w.update(w1=w["w1"] * np.float32(1.02)))
    request = replace(made.request, root_cause=RootCauseOptions(memory=1 << 30))
    usual = compare(request)
    monkeypatch.setattr(floors.Emulation, "emulated", short_of_memory)
    little = compare(request)
    assert [each.op for each in little.origins] == ["conv1"]
    assert [each.label for each in little.findings] == [each.label for each in usual.findings]


def test_a_group_that_never_fits_is_said_to(sides, monkeypatch):
    def no_memory(self, groups, feeds):
        if groups:
            raise MemoryError
        return []

    monkeypatch.setattr(floors.Emulation, "emulated", no_memory)
    data = compare(sides().request)
    assert any("not enough memory" in warning for warning in data.run.warnings)


@pytest.mark.parametrize("share", [0.005, 0.5])
def test_flushing_the_smallest_numbers_is_no_fault_unless_it_costs_much(share):
    small = np.float32(3e-5)
    count = round(1000 * share)
    large = np.float32(1e-3)
    reference = np.where(np.arange(1000) < count, small, large).astype(np.float32)
    device = np.where(reference < 6e-5, 0, reference)
    told = ToleranceEstimate(reference, FP16.rounded(device), 1e-4)
    acted = flushed.TOLERANCE.apply(context(), told) is not None
    assert acted == (share < 0.1)


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
