"""Numbers below the smallest normal one of a type, which have few bits."""

from __future__ import annotations

import math

from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)
from divergraph.rootcause.tolerances.suspicious import are_floats, smallest_normal


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if not are_floats(told):
        return None
    precision, normal = context.arithmetic.precision, smallest_normal(context, told)
    # What converters raise constants to is more than the distance of subnormal numbers.
    held = normal == precision.smallest_normal
    spacing = (precision.least_kept if held else 0.0) or normal
    absolute = spacing * math.sqrt(told.reference.size)
    return Widen(absolute=absolute, numbers={"spacing": spacing})


TOLERANCE = Tolerance(
    "subnormal spacing",
    Stage.SUSPICIOUS,
    20,
    "below its smallest normal number a type keeps few bits",
    _apply,
)
