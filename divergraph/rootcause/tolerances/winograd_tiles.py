"""A convolution that was computed over transformed tiles, as Winograd's algorithms do."""

from __future__ import annotations

from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.tiles.told_tiles import told_tiles
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    arithmetic, reference = context.arithmetic, estimate.reference
    if not estimate.are_floats or arithmetic.quantisers.by_tensor:
        return None  # a reference with exact weights is too far off to see that
    sides = estimate.device, reference, estimate.masked
    told = told_tiles(arithmetic, context.group, context.given, *sides)
    if told is None:
        return None
    floor = floor_of(reference, told.made, arithmetic.precision, context.ops)
    numbers = {"cosine": told.cosine, "reach": float(told.tiles.reach)}
    return Widen(floor, imitations=(told.made,), numbers=numbers)


TOLERANCE = Tolerance(
    "Winograd tiles",
    Stage.SUSPICIOUS,
    6,
    "the convolution was computed over transformed tiles, and has the very errors that makes",
    _apply,
)
