"""Numbers below the smallest normal one of a type: of few bits, or raised by the converter.

Dead weights of 1e-33 become 1e26 times larger in float16, and it does not matter.
"""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)
from divergraph.rootcause.tolerances.masks import without


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if not told.are_floats:
        return None
    precision, normal = context.arithmetic.precision, context.smallest_normal(told)
    held = normal == precision.smallest_normal  # else in more bits than it was computed in
    # What converters raise constants to is more than the distance of subnormal numbers.
    spacing = (precision.least_kept if held else 0.0) or normal
    absolute, numbers = spacing * math.sqrt(told.reference.size), {"spacing": spacing}
    raised = context.arithmetic.emulated_converted(context.group, context.given) if held else None
    if raised is None or raised.shape != told.reference.shape:
        return Widen(absolute=absolute, numbers=numbers)
    raised = without(told.masked, raised)
    norm = _among_small(raised, told.reference, normal)
    return Widen(0.0, max(absolute, norm), imitations=(raised,), numbers={**numbers, "norm": norm})


def _among_small(raised: Array, reference: Array, normal: float) -> float:
    """How far *raised* is off where both values are subnormal, as a norm: an error among normal
    numbers is none of the converter's."""
    small = (np.abs(raised) < normal) & (np.abs(reference) < normal)
    return float(np.linalg.norm(np.asarray(raised[small], np.float64) - reference[small]))


TOLERANCE = Tolerance(
    "small numbers",
    Stage.SUSPICIOUS,
    20,
    "below its smallest normal number a type keeps few bits, and converters raise weights to the "
    "smallest they keep",
    _apply,
)
