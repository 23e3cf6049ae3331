"""Gains: errors in the direction of the output, or of what a tensor inside a group does to it."""

from __future__ import annotations

import numpy as np
import pytest
from judged_output import H, V, W, acted, context, judged

from divergraph.comparison import compare
from divergraph.golden_capture import StandIn
from divergraph.rootcause.devices.precisions.bf16 import BF16
from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.devices.precisions.fp32 import FP32
from divergraph.rootcause.devices.precisions.int8 import INT8
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from divergraph.rootcause.tolerances.gains import gain_floor, inner_gain_floor
from graphstore.model import Effect, Guilt


def test_a_gain_in_half_precision_is_seen_below_the_floor() -> None:
    found, split = judged(H * np.float32(1.004), V, H)
    assert split.guilt is Guilt.GUILTY
    assert acted(found, "gain").effect is Effect.NARROW
    found, split = judged(H * np.float32(1.004), V, H, known=context(INT8, integers=True))
    assert acted(found, "gain") is None
    off = V + np.float32(1e-3) * W
    found, _ = judged(V * np.float32(1.0005), V, off, known=context(FP32))
    assert acted(found, "gain") is None
    found, _ = judged(H * np.float32(1.004), V, None)  # what cannot run is not known so well
    assert acted(found, "gain") is None


def test_in_bfloat16_a_gain_of_1_percent_is_no_rounding() -> None:
    rounded = BF16.rounded(V)
    _, healthy = judged(rounded, V, rounded, known=context(BF16))
    assert healthy.guilt is Guilt.NONE
    _, wrong = judged(rounded * np.float32(1.04), V, rounded, known=context(BF16))
    assert wrong.guilt is Guilt.GUILTY


@pytest.mark.parametrize("emulation", [H[:10], np.ones(4000, np.int32)])
def test_without_an_emulation_like_it_an_error_is_no_gain(emulation) -> None:
    estimate = ToleranceEstimate(V, V * np.float32(1.004), 1e-3, imitations=(emulation,))
    assert gain_floor(estimate, FP16, 1) == 1e-3


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
    estimate = ToleranceEstimate(VALUES, device, 4e-4, imitations=(HALF,))
    return gain_floor(estimate, FP16, ops)


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
    estimate = ToleranceEstimate(spiky, device, 4e-4, imitations=(FP16.rounded(spiky),))
    assert gain_floor(estimate, FP16, 1) == 4e-4


def test_a_gain_inside_a_group_is_seen_where_it_moves_the_output():
    inside = RNG.standard_normal(VALUES.size).astype(np.float32)
    ways = [inside / 64, VALUES / 640]
    gain = VALUES + np.float32(0.0015) * inside
    noise = VALUES + 0.0015 * inside * RNG.choice([-1, 1], VALUES.size).astype(np.float32)

    def floor(device):
        estimate = ToleranceEstimate(VALUES, device, 4e-4, imitations=(HALF,))
        return inner_gain_floor(estimate, FP16, ways)

    assert floor(noise) == 4e-4
    assert floor(gain) < 2.5e-4
