"""Errors in a part of a tensor that the norm of all of it hides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_output import V, acted, judged
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.tolerances.local_errors import Noise, local_suspicion
from graphstore.model import Effect, Guilt

RNG = np.random.default_rng(6)
WIDE = np.concatenate([RNG.standard_normal(3000), np.full(1000, -1e4)]).astype(np.float32)
"""Scores of attention, a quarter of them hidden by a mask."""
HALF = FP16.rounded(WIDE)
NOISE = Noise((HALF,), FP16)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 1e4]))
def test_rounding_is_suspicious_in_no_part(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    value = rng.standard_normal(500).astype(np.float32) * np.exp2(
        rng.uniform(0, np.log2(spread), 500)
    ).astype(np.float32)
    noise = Noise((FP16.rounded(value),), FP16)
    other = value * (1 + rng.uniform(-1, 1, value.size) * 2.0**-11).astype(np.float32)
    assert local_suspicion(value, FP16.rounded(other), noise) < 3


def test_zeros_among_what_is_not_hidden_are_seen() -> None:
    """Off by 0.02 %: what rounding -10000 to float16 makes as well."""
    device = HALF.copy()
    device[2900:3000] = 0
    assert np.linalg.norm(device - WIDE) < 3e-4 * np.linalg.norm(WIDE)
    assert local_suspicion(WIDE, device, NOISE) > 10
    found, split = judged(device, WIDE, HALF)
    assert split.suspicion > 10
    assert found.adjustments[-1].tolerance == "local error"


def test_a_coarse_quantiser_does_not_hide_a_lost_tail() -> None:
    """Values saturate, so the noise of the whole is large; the tail is many steps off."""
    value = RNG.standard_normal(4000).astype(np.float32)
    value[:40] *= 12
    quantised = np.clip(np.rint(value / 0.05), -60, 60).astype(np.float32) * np.float32(0.05)
    noise = Noise((quantised,), FP32, alike=True, step=0.05)
    assert local_suspicion(value, quantised, noise) == 0
    next_step = quantised + np.float32(0.05) * RNG.integers(-1, 2, value.size)
    assert local_suspicion(value, next_step.astype(np.float32), noise) < 3
    tail = quantised.copy()
    tail[3000:] = 0
    assert local_suspicion(value, tail, noise) > 6


def test_of_several_imitations_each_may_explain_the_error() -> None:
    value = RNG.standard_normal(400).astype(np.float32)
    other = value + np.float32(0.1) * RNG.standard_normal(400).astype(np.float32)
    exact = value * np.float32(1 + 1e-4)
    assert local_suspicion(value, other, Noise((exact, other), FP16)) < 1
    assert local_suspicion(value, other, Noise((exact,), FP16)) > 10


def test_two_elements_may_be_off_by_chance() -> None:
    device = HALF.copy()
    device[:2] += 1
    alone = Noise((HALF,), FP16, alike=True)
    assert local_suspicion(WIDE, device, alone) < 1


@pytest.mark.parametrize("device", [HALF[:20], np.where(WIDE < 0, np.nan, WIDE)])
def test_few_elements_and_no_numbers_say_nothing(device: np.ndarray) -> None:
    value = WIDE[: device.size]
    noise = Noise((HALF[: device.size],), FP16)
    assert local_suspicion(value, device, noise) == 0


def powers(folder: Path, kind: type[np.floating]) -> CompareRequest:
    """y = (1 - seen) * -10000 + x ** 3; *seen* is of zeros and ones, the device dumps in *kind*."""
    nodes = [
        helper.make_node("Sub", ["one", "seen"], ["unseen"], name="unseen"),
        helper.make_node("Mul", ["unseen", "hide"], ["mask"], name="mask"),
        helper.make_node("Pow", ["x", "three"], ["cube"], name="cube"),
        helper.make_node("Add", ["cube", "mask"], ["sum"], name="sum"),
        helper.make_node("Softmax", ["sum"], ["y"], name="y"),
    ]
    constants = {"one": 1.0, "hide": -1e4, "three": 3.0}
    graph = helper.make_graph(
        nodes,
        "powers",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 16]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [1, 16]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(folder / "model.onnx"))
    np.save(folder / "x.npy", RNG.standard_normal((16, 16)).astype(np.float32))
    np.save(folder / "seen.npy", np.array([[1.0] * 12 + [0.0] * 4], np.float32))
    inputs = {"x": folder / "x.npy", "seen": folder / "seen.npy"}
    capture(CaptureRequest(folder / "model.onnx", folder / "golden", inputs))
    (folder / "device").mkdir()
    for path in (folder / "golden").glob("*.npy"):
        np.save(folder / "device" / path.name, np.load(path).astype(kind))
    return CompareRequest(
        folder / "model.onnx", folder / "golden", folder / "model.onnx", folder / "device"
    )


def test_whole_numbers_were_not_rounded_for_the_dump(tmp_path: Path) -> None:
    """Were the 1 of what is seen doubted, (1 - 1) * -10000 would explain anything."""
    request = powers(tmp_path, np.float16)
    for op in ("unseen", "mask", "sum"):
        (path,) = request.device_dump.glob(f"{op}.0.*.npy")
        path.unlink()
    (path,) = request.device_dump.glob("y.0.*.npy")
    np.save(path, np.roll(np.load(path), 1, axis=1))
    assert [each.op for each in compare(request).origins] == ["y"]


def test_exponents_are_exact(tmp_path: Path) -> None:
    """A cube of 2.9999999 has no value for negative numbers, and no floor either."""
    data = compare(powers(tmp_path, np.float32))
    (split,) = (item.split for item in data.comparisons if item.op == "cube" and item.split)
    assert split.floor is not None
    assert split.floor < 1e-5


def test_a_part_that_is_wrong_beside_large_values_is_guilty() -> None:
    wide = np.concatenate([V[:3000], np.full(1000, -1e4, np.float32)])
    device = FP16.rounded(wide)
    device[:100] = 0
    emulation = wide * np.float32(1.0002)
    found, split = judged(device, wide, emulation)
    assert split.guilt is Guilt.GUILTY
    narrowed = acted(found, "local error")
    assert narrowed.effect is Effect.NARROW
    assert narrowed.after < narrowed.before / 3


def test_one_of_ten_quantised_values_that_is_off_by_some_steps_is_a_fault() -> None:
    """As a tensor it is off by little more than quantising costs."""
    step = 0.01
    value = np.random.default_rng(4).uniform(-1.5, 1.5, (1, 10)).astype(np.float32)
    quantised = np.rint(value / step).astype(np.float32) * np.float32(step)
    noise = Noise((quantised,), FP32, alike=True, step=step)
    device = quantised.copy()
    device[0, 3] += np.float32(step)
    assert local_suspicion(value, device, noise) < 1
    device[0, 3] += np.float32(4 * step)
    assert local_suspicion(value, device, noise) > 6


def test_a_flat_floor_of_all_hides_no_turn_of_a_loop() -> None:
    value = np.random.default_rng(5).standard_normal((12, 1, 16)).astype(np.float32)
    noise = Noise((value * np.float32(1 + 1e-7),), FP32, alike=True, least=0.02, flat=0.02)
    device = value.copy()
    device[5] *= np.float32(1.3)
    assert np.linalg.norm(device - value) < 6 * 0.02 * np.linalg.norm(value)
    assert local_suspicion(value, device, noise) > 6
    assert local_suspicion(value, value * np.float32(1.02), noise) < 2
