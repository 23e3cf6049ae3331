"""Numbers below a type's smallest normal one, which have few bits or are raised by converters.

Dead weights of 1e-33 become 1e-7 in float16, 1e26 times larger, and it does not matter.
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


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not estimate.are_floats:
        return None
    precision, normal = context.arithmetic.precision, context.smallest_normal(estimate)
    is_narrow = (
        normal == precision.smallest_normal
    )  # else the dump has more bits than the arithmetic
    # The value converters raise constants to is larger than the spacing of subnormal numbers.
    spacing = (precision.least_kept if is_narrow else 0.0) or normal
    absolute, numbers = spacing * math.sqrt(estimate.reference.size), {"spacing": spacing}
    raised = (
        context.arithmetic.emulated_converted(context.group, context.given) if is_narrow else None
    )
    if raised is None or raised.shape != estimate.reference.shape:
        return Widen(absolute=absolute, numbers=numbers)
    raised = without(estimate.masked, raised)
    norm = _among_small(raised, estimate.reference, normal)
    return Widen(0.0, max(absolute, norm), imitations=(raised,), numbers={**numbers, "norm": norm})


def _among_small(raised: Array, reference: Array, normal: float) -> float:
    """The norm of the error of *raised* where both values are subnormal: the converter changes no
    normal number, so an error among those is not excused."""
    small = (np.abs(raised) < normal) & (np.abs(reference) < normal)
    return float(np.linalg.norm(np.asarray(raised[small], np.float64) - reference[small]))


TOLERANCE = Tolerance(
    "small numbers",
    Stage.SUSPICIOUS,
    20,
    "subnormal numbers have few bits, and converters raise tiny weights to the smallest number "
    "they keep",
    _apply,
)
