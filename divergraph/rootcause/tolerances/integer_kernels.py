"""Kernels in integers whose scales the graph does not tell."""

from __future__ import annotations

import math

from divergraph.rootcause import calibration
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)


def _apply(context: OpContext, _told: ToleranceEstimate) -> Action:
    if not context.group.integers:
        return None
    # Each op quantises by itself, so their errors add up like chance.
    return Widen(calibration.INTEGER_KERNEL * math.sqrt(context.ops), numbers={"ops": context.ops})


TOLERANCE = Tolerance(
    "integer kernel",
    Stage.KNOWN,
    30,
    "the device computes this in integers, with scales its graph does not tell",
    _apply,
)
