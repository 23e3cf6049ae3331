"""Subnormal numbers flushed to zero."""

from __future__ import annotations

import numpy as np
import pytest
from judged_output import acted, context, judged

from divergraph.rootcause.devices.precisions.fp16 import FP16
from divergraph.rootcause.tolerances import flushed
from divergraph.rootcause.tolerances.contract import ToleranceEstimate
from graphstore.model import Guilt


def test_flushed_numbers_are_left_out() -> None:
    reference = np.full(4000, 1e-3, np.float32)
    reference[:200] = 3e-5
    device = FP16.rounded(reference)
    device[:200] = 0
    found, split = judged(device, reference, FP16.rounded(reference))
    assert split.guilt is Guilt.NONE
    assert acted(found, "flushed subnormals").numbers == {"places": 200}
    device[200:210] = 0  # normal numbers are not flushed
    found, split = judged(device, reference, FP16.rounded(reference))
    assert split.guilt is Guilt.GUILTY


@pytest.mark.parametrize("share", [0.005, 0.5])
def test_flushing_the_smallest_numbers_is_no_fault_unless_it_costs_much(share):
    small = np.float32(3e-5)
    count = round(1000 * share)
    large = np.float32(1e-3)
    reference = np.where(np.arange(1000) < count, small, large).astype(np.float32)
    device = np.where(reference < 6e-5, 0, reference)
    estimate = ToleranceEstimate(reference, FP16.rounded(device), 1e-4)
    acted = flushed.TOLERANCE.apply(context(), estimate) is not None
    assert acted == (share < 0.1)
