"""Errors below the last place of a tensor's own scale, and the bound of suspicion."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from judged_output import W, acted, context, judged
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.options import RootCauseOptions
from divergraph.rootcause.tolerances.last_place import most_suspicion, scale_of
from graphstore.model import Effect, Guilt, Verdict

GUILTY = RootCauseOptions().guilty
RNG = np.random.default_rng(8)


def tails(folder: Path, gain: float = 1.0) -> CompareRequest:
    """A product, a Sigmoid and a Softmax whose values lie between 0 and 1, most next to 0.

    The device's weights are *gain* times golden's in one column, its tails are off by 1e-8.
    """
    folder.mkdir(exist_ok=True)
    weights = RNG.standard_normal((32, 32)).astype(np.float32) * 12

    def written(name: str, values: np.ndarray) -> Path:
        nodes = [
            helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
            helper.make_node("Sigmoid", ["m"], ["s"], name="sigmoid"),
            helper.make_node("Softmax", ["m"], ["p"], name="softmax"),
            helper.make_node("Add", ["s", "p"], ["y"], name="sum"),
        ]
        graph = helper.make_graph(
            nodes,
            "tails",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 32])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(values, "w")],
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.save_model(model, str(folder / name))
        return folder / name

    np.save(folder / "x.npy", RNG.standard_normal((64, 32)).astype(np.float32))
    inputs = {"x": folder / "x.npy"}
    golden = written("golden.onnx", weights)
    other = weights.copy()
    other[:, 3] *= np.float32(gain)
    device = written("device.onnx", other)
    capture(CaptureRequest(golden, folder / "golden", inputs))
    capture(CaptureRequest(device, folder / "device", inputs))
    for op in ("sigmoid", "softmax"):
        (path,) = (folder / "device").glob(f"{op}.0.*.npy")
        value = np.load(path)
        noise = RNG.uniform(0.5e-8, 1e-8, value.shape).astype(np.float32)
        np.save(path, np.where(value < 1e-9, value + noise, value))
    return CompareRequest(golden, folder / "golden", device, folder / "device")


def test_the_tail_of_a_function_is_no_origin(tmp_path: Path) -> None:
    data = compare(tails(tmp_path))
    assert data.run.verdict is Verdict.CLEAN
    assert not data.origins
    assert all(each.suspicion <= GUILTY for each in data.suspects)


def test_the_fault_is_the_only_origin_beside_such_tails(tmp_path: Path) -> None:
    data = compare(tails(tmp_path, gain=1.01))
    assert [each.op for each in data.origins] == ["product"]


def most(device, reference, *handed, before=0.0, precision=FP32):
    return most_suspicion(
        np.asarray(device, np.float32),
        np.asarray(reference, np.float32),
        [np.asarray(each, np.float32) for each in handed],
        before,
        precision,
        GUILTY,
    )


def test_an_error_of_k_last_places_has_at_most_k_times_the_limit() -> None:
    right = np.array([1.0, -1.0, 1.0, 0.0] * 16)
    scale = scale_of(right)
    unit = 4 * FP32.unit
    for places in (0.01, 1.0, 100.0):
        device = right.copy()
        device[3] += places * unit * scale
        assert most(device, right) == pytest.approx(GUILTY * max(1.0, places), rel=1e-3)


def test_what_is_lost_of_a_part_beside_a_mask_can_be_guilty() -> None:
    """The scores are the scale, not the numbers that stand for infinity."""
    scores = RNG.standard_normal(3000)
    right = np.concatenate([scores, scores[:1000] - 1e4])
    device = right.copy()
    device[100:200] = 0
    assert scale_of(right) < 2
    assert most(device, right, precision=FP16) > 100 * GUILTY


def test_of_nothing_but_zeros_the_scale_is_what_was_handed() -> None:
    zeros = np.zeros(64)
    assert most(zeros + 1e-8, zeros, zeros + 200) == GUILTY
    assert most(zeros + 1, zeros, zeros + 1) > 1e6
    assert most(zeros + 1e-8, zeros) == calibration.MOST_SUSPICION


def test_an_error_far_below_what_was_handed_and_the_limits_is_no_origin() -> None:
    right = RNG.standard_normal(256)
    device = right + 4e-6
    assert most(device, right) > GUILTY
    assert most(device, right, before=0.1) == GUILTY
    assert most(right + 1e-3, right, before=0.1) > GUILTY


@pytest.mark.parametrize("wrong", [1e30, -3e38])
def test_suspicion_is_bounded(wrong: float) -> None:
    right = np.full(64, 1e-30)
    _, split = judged(np.full(64, wrong), right, right, known=context(FP32))
    assert split.guilt is Guilt.GUILTY
    assert split.suspicion == calibration.MOST_SUSPICION
    assert split.introduced / split.floor == pytest.approx(calibration.MOST_SUSPICION)


def test_no_number_where_one_is_right_has_no_bound() -> None:
    assert math.isinf(most([np.nan, 1.0], [1.0, 1.0]))
    assert most([np.nan, 1.0], [np.nan, 1.0]) == GUILTY


def test_suspicion_is_bounded_by_the_last_place() -> None:
    right = np.zeros(4000, np.float32)
    right[:40] = 1.0
    device = right.copy()
    device[40:] = 1e-9
    found, split = judged(device, right, right, known=context(FP32))
    assert split.suspicion <= 10.0
    tiny = np.full(64, 1e-6, np.float64)
    emulated = tiny * (1 + 1e-9)
    found, split = judged(tiny + 1e-12, tiny, emulated, known=context(FP32, inputs_error=0.5))
    bounded = acted(found, "last place")
    if bounded is not None:
        assert split.suspicion == bounded.numbers["most_suspicion"]


def test_an_error_of_one_unit_is_at_most_suspect_whatever_the_floor() -> None:
    right = np.ones(4000)
    right[40:] = 1e-5
    device = right.copy()
    device[40:] += 2e-4 * np.sign(W[40:])
    found, split = judged(device, right, right, known=context(BF16, inputs_error=0.5))
    assert acted(found, "last place").effect is Effect.WIDEN
    assert split.suspicion == 10.0
    assert split.guilt is Guilt.SUSPECT
    assert split.introduced / split.floor == pytest.approx(10.0)


def test_of_zeros_the_last_place_is_that_of_what_was_handed() -> None:
    zeros = np.zeros(64)
    known = context(FP32, given={"x": np.ones(64)})
    found, split = judged(zeros + 1e-9, zeros, zeros, known=known)
    assert split.suspicion == 10.0
    assert acted(found, "last place").numbers == {"most_suspicion": 10.0}
