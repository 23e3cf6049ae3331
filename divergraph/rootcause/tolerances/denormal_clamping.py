"""Weights too small for the type, which converters raise to the smallest they keep.

Dead weights of 1e-33 become 1e26 times larger, and it does not matter.
"""

from __future__ import annotations

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
from divergraph.rootcause.tolerances.suspicious import are_floats, smallest_normal


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if not are_floats(told) or told.device is None:
        return None
    if not context.arithmetic.precision.fits(told.device):
        return None  # held in more bits than converters make of constants
    raised = context.arithmetic.raised(context.group, context.given)
    if raised is None or raised.shape != told.reference.shape:
        return None
    raised = without(told.masked, raised)
    norm = _among_small(raised, told.reference, smallest_normal(context, told))
    return Widen(absolute=norm, imitations=(raised,), numbers={"norm": norm})


def _among_small(raised: Array, reference: Array, normal: float) -> float:
    """How far *raised* is off where both values are subnormal, as a norm: an error among normal
    numbers is none of the converter's."""
    small = (np.abs(raised) < normal) & (np.abs(reference) < normal)
    return float(np.linalg.norm(np.asarray(raised[small], np.float64) - reference[small]))


TOLERANCE = Tolerance(
    "denormal clamping",
    Stage.SUSPICIOUS,
    30,
    "converters raise weights that are too small for the device's type to the smallest they keep",
    _apply,
)
