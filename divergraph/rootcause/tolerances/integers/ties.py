"""Floats made integers on a scale: a value next to a tie goes either way."""

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


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    reference = estimate.reference
    if reference.dtype.kind not in "iu" or reference.size < calibration.PART_LEAST_VALUES:
        return None
    if not any(array.dtype.kind == "f" for array in context.given.values()):
        return None
    steps = math.sqrt(calibration.PEAK_VALUES)
    return Widen(absolute=steps, numbers={"values": calibration.PEAK_VALUES})


TOLERANCE = Tolerance(
    "ties",
    Stage.SUSPICIOUS,
    15,
    "a few values next to a tie are rounded to the integer on its other side",
    _apply,
)
