"""Subnormal numbers, and weights that converters raise."""

from __future__ import annotations

import numpy as np
import pytest
from judged_output import V, W, acted, context, judged

from divergraph.comparison import compare
from divergraph.golden_capture import StandIn
from divergraph.rootcause.devices.precisions.fp16 import FP16
from graphstore.model import Guilt


def test_constants_too_small_for_the_type_may_be_raised() -> None:
    small = np.full(200, 3e-7, np.float32)
    device = small + np.float32(1e-7)
    found, constant = judged(FP16.rounded(device), small, small, known=context(fed=False))
    assert constant.guilt is Guilt.NONE
    assert acted(found, "small numbers").after > acted(found, "small numbers").before


def test_below_the_smallest_normal_number_few_bits_are_kept() -> None:
    small = (V * np.float32(1e-6)).astype(np.float32)
    device = FP16.rounded(small + np.float32(8e-8))
    found, split = judged(device, small, small)
    assert split.guilt is Guilt.NONE
    assert acted(found, "small numbers").numbers["spacing"] == pytest.approx(1e-7)
    finer = small + np.float32(1.1e-8) * np.sign(W)  # held in more bits than float16 has
    found, split = judged(finer.astype(np.float32), small, small)
    assert split.guilt is not Guilt.NONE
    assert acted(found, "small numbers").numbers["spacing"] < 1e-37


def test_weights_raised_to_the_least_kept_are_clamped() -> None:
    dead = np.full(400, 1e-20, np.float32)
    device = FP16.rounded(np.full(400, 2e-6, np.float32))
    known = context()
    assert judged(device, dead, dead, known=known)[1].guilt is Guilt.GUILTY
    known.arithmetic.clamped = device
    found, split = judged(device, dead, dead, known=known)
    assert split.guilt is Guilt.NONE
    assert acted(found, "small numbers").numbers["norm"] == pytest.approx(4e-5, rel=0.1)
    known.arithmetic.clamped = np.full(400, 1.0, np.float32)  # not among small numbers
    assert judged(device, dead, dead, known=known)[1].guilt is Guilt.GUILTY


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
