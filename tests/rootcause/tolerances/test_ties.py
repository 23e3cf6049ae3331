"""Quantised floats may be a step off next to a tie."""

from __future__ import annotations

import numpy as np
from judged_output import V, acted, context, judged

from divergraph.rootcause.devices.precisions.fp32 import FP32
from graphstore.model import Guilt

STEPS = np.rint(V * 40).astype(np.int32)
FED = context(FP32, given={"x": V}, kind="QuantizeLinear")


def off_by_one(count: int) -> np.ndarray:
    device = STEPS.copy()
    device[:count] += 1
    return device


def test_a_value_next_to_a_tie_goes_either_way() -> None:
    found, split = judged(off_by_one(1), STEPS, STEPS, known=FED)
    assert acted(found, "ties").numbers == {"values": 3}
    assert split.guilt is Guilt.NONE


def test_rounding_everything_to_the_next_integer_is_no_tie() -> None:
    _, split = judged(off_by_one(STEPS.size), STEPS, STEPS, known=FED)
    assert split.guilt is Guilt.GUILTY


def test_a_flipped_bit_is_no_tie() -> None:
    device = STEPS.copy()
    device[5] ^= 64
    _, split = judged(device, STEPS, STEPS, known=FED)
    assert split.guilt is Guilt.GUILTY


def test_integers_of_integers_are_exact() -> None:
    found, split = judged(
        off_by_one(1), STEPS, STEPS, known=context(FP32, given={"i": STEPS}, kind="QuantizeLinear")
    )
    assert acted(found, "ties") is None
    assert split.guilt is Guilt.GUILTY
