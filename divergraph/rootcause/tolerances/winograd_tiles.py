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
    tiles = told_tiles(arithmetic, context.group, context.given, *sides)
    if tiles is None:
        return None
    floor = floor_of(reference, tiles.made, arithmetic.precision, context.ops)
    numbers = {"cosine": tiles.cosine, "reach": float(tiles.tiles.reach)}
    return Widen(floor, imitations=(tiles.made,), numbers=numbers)


TOLERANCE = Tolerance(
    "Winograd tiles",
    Stage.SUSPICIOUS,
    6,
    "the convolution was computed over transformed tiles, and has the very errors that makes",
    _apply,
)
