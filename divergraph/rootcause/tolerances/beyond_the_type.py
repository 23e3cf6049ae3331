"""Numbers beyond the device's type: those that stand for infinity, and those that overflow.

A mask's -1e9 does its work whatever large number a device holds in its place. And where the
emulated arithmetic overflows on the same inputs, an overflow of the device is no fault.
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
from divergraph.rootcause.tolerances.masks import (
    END_OF_FLOAT32,
    Mask,
    past_the_end,
    standing_for_infinity,
)


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    mask, lost = _mask(context, estimate.reference, estimate.device), _overflown(estimate)
    if lost is not None and mask is not None:
        lost &= ~(mask.held | mask.missed)
    if mask is None and (lost is None or not lost.any()):
        return None
    masked_places, missed = ((), ()) if mask is None else (mask.held, mask.missed)
    counted = {"held": masked_places, "missed": missed, "overflown": () if lost is None else lost}
    return Exclude(
        None if lost is None else np.where(lost, np.nan, estimate.reference),
        mask,
        {name: int(np.count_nonzero(places)) for name, places in counted.items()},
    )


def _overflown(estimate: ToleranceEstimate) -> Array | None:
    """Where neither the emulation nor the device is finite; a finite wrong value stays wrong."""
    emulated = estimate.emulation
    if emulated is None or emulated.dtype.kind != "f" or not estimate.are_floats:
        return None
    return ~np.isfinite(emulated) & ~np.isfinite(estimate.device)


def _mask(context: OpContext, reference: Array, device: Array) -> Mask | None:
    largest = context.arithmetic.precision.largest or END_OF_FLOAT32
    huge = context.arithmetic.mask_sentinels(context.group)
    standing = standing_for_infinity(reference, device, huge, largest)
    scaled = past_the_end(reference, device, context.given.values(), huge, largest)
    if standing is None or scaled is None:
        return standing or scaled
    # A mask that was scaled past the type's end counts as held, although the constant alone would
    # call such a place missed.
    return Mask(standing.held | scaled.held, standing.missed & ~scaled.held, standing.largest)


TOLERANCE = Tolerance(
    "beyond the type",
    Stage.PLACES,
    10,
    "a value that stands for infinity may be any large number, and where the emulation overflows "
    "the device may overflow, too",
    _apply,
)
