"""Constants too small for the device's type: converters raise them, or they vanish."""

from __future__ import annotations

from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)
from divergraph.rootcause.tolerances.noise_floor import constant_floor


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if context.group.feeds:
        return None  # it computes: what its constants lose is emulated
    found = constant_floor(told.reference, context.arithmetic.precision)
    return Widen(found) if found > told.floor else None


TOLERANCE = Tolerance(
    "raised constant",
    Stage.KNOWN,
    10,
    "converters raise constants that are too small for the device's type, or set them to zero",
    _apply,
)
