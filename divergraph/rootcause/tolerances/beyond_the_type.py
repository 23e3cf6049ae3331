"""Numbers beyond the device's type: what stands for infinity, and what overflows by itself.

A mask's -1e9 is as good however a device holds it. And where the emulated arithmetic makes NaN or
infinities of these very inputs, those of the device are no fault of it.
"""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
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
    mask, lost = _mask(context, told.reference, told.device), _overflown(told)
    if lost is not None and mask is not None:
        lost &= ~(mask.held | mask.missed)
    if mask is None and (lost is None or not lost.any()):
        return None
    held, missed = ((), ()) if mask is None else (mask.held, mask.missed)
    counted = {"held": held, "missed": missed, "overflown": () if lost is None else lost}
    return Exclude(
        None if lost is None else np.where(lost, np.nan, told.reference),
        mask,
        {name: int(np.count_nonzero(each)) for name, each in counted.items()},
    )


def _overflown(told: ToleranceEstimate) -> Array | None:
    """Where both have no number: an emulation that overflows excuses no wrong one."""
    emulated = told.emulation
    if emulated is None or emulated.dtype.kind != "f" or not told.are_floats:
        return None
    return ~np.isfinite(emulated) & ~np.isfinite(told.device)


def _mask(context: OpContext, reference: Array, device: Array) -> Mask | None:
    largest = context.arithmetic.precision.largest
    if largest is None:
        return None  # the type holds all numbers a model has
    huge = context.arithmetic.mask_sentinels(context.group)
    found = standing_for_infinity(reference, device, huge, largest)
    scaled = past_the_end(reference, device, context.given.values(), huge, largest)
    if found is None or scaled is None:
        return found or scaled
    # What was scaled past the end is held, whatever the constant alone would ask for.
    return Mask(found.held | scaled.held, found.missed & ~scaled.held, found.largest)


TOLERANCE = Tolerance(
    "beyond the type",
    Stage.PLACES,
    10,
    "what stands for minus infinity may be any large number, and where the emulated arithmetic "
    "overflows so may the device",
    _apply,
)
