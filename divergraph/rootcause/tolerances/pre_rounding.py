"""Values before they were rounded: what a dump shows is not always what the next op was given.

A dump holds a value rounded to the device's type; the next op may have been given it unrounded,
from a register or a float32 buffer. Where inputs cancel, that difference is the whole result. And
a gate (the gradient of a Relu, a comparison) may depend on an inner value next to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import Exactness
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.precisions.fp32 import FP32
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
    reference, precision = estimate.reference, context.arithmetic.precision
    floor, added, count = estimate.floor, list[Array](), 0
    for drawn in _drawn(context, reference.size):
        count += 1
        alike = drawn.shape == reference.shape
        perturbed = without(estimate.masked, drawn) if alike else drawn
        off = floor_of(reference, perturbed, precision, context.ops)
        # Only draws that widen the floor are kept: each is a whole tensor in memory.
        if alike and (not added or off > floor):
            added.append(perturbed)
        floor = max(floor, off)
    return Widen(floor, imitations=tuple(added), numbers={"draws": count}) if count else None


def _drawn(context: OpContext, size: int) -> Iterator[Array]:
    """Outputs that healthy arithmetic may have made as well, each with new random rounding. One
    draw is enough for a large output of one op; groups and small tensors may cancel by luck."""
    arithmetic, several = context.arithmetic, context.ops > 1
    if not (arithmetic.precision.rounds or several):
        return iter(())  # a single op is not drawn anew: how far it may be off is known
    ops = [context.golden.ops[op_id] for op_id in context.group.ops]
    exactness = arithmetic.operands.exactness(ops, context.golden)
    if not several and exactness is Exactness.TO_THE_BIT:
        # Products of this run read what was dumped, but ties of a format are as the scale falls, if
        # they are not so many that these products show how they fall.
        if all(arithmetic.operands.of(op, context.golden).ties_often for op in ops):
            return iter(())
        lost = calibration.DIVISION_UNITS * FP32.unit
        arithmetic, again = replace(arithmetic, divided=lost), True
    else:
        again = several or size < calibration.FEW_VALUES
    count = calibration.ROUNDED_DRAWS if again else 1
    return arithmetic.draws(context.group, context.given, count)


TOLERANCE = Tolerance(
    "pre-rounding perturbation",
    Stage.SUSPICIOUS,
    10,
    "the op may have been given values before they were rounded for the dump, and gates depend on "
    "values next to zero",
    _apply,
)
