"""Numbers that stand for infinity, and are as good however a device holds them."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.masks import Mask, past_the_end, standing_for_infinity


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    largest, device = context.arithmetic.precision.largest, told.device
    if largest is None or device is None:
        return None  # the type holds all numbers a model has
    huge = context.arithmetic.huge(context.group)
    found = standing_for_infinity(told.reference, device, huge, largest)
    scaled = past_the_end(told.reference, device, context.given.values(), huge, largest)
    mask = _either(found, scaled)
    if mask is None:
        return None
    held, missed = (int(np.count_nonzero(each)) for each in (mask.held, mask.missed))
    return Exclude(mask=mask, numbers={"held": held, "missed": missed})


def _either(found: Mask | None, scaled: Mask | None) -> Mask | None:
    if found is None or scaled is None:
        return found or scaled
    # What was scaled past the end is held, whatever the constant alone would ask for.
    return Mask(found.held | scaled.held, found.missed & ~scaled.held, found.largest)


TOLERANCE = Tolerance(
    "mask sentinel",
    Stage.PLACES,
    10,
    "what stands for minus infinity in a mask is beyond the type, so any large number will do",
    _apply,
)
