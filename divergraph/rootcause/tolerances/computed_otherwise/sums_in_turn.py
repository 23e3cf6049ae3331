"""Sums that the device adds up one number after another, and that lose what is small."""

from __future__ import annotations

from dataclasses import replace

from divergraph.rootcause import calibration
from divergraph.rootcause.devices.arithmetic import agreement
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.sums_in_turn import sums_in_turn
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
    arithmetic, reference = context.arithmetic, estimate.reference
    if not estimate.are_floats or arithmetic.precision.rounds:
        return None
    if not any(sums_in_turn(context.golden.ops[op]) for op in context.group.ops):
        return None
    turned = replace(arithmetic, in_turn=True, plain=True)
    (made,) = turned.emulated([context.group], [context.given])
    if made is None or made.shape != reference.shape:
        return None
    made = without(estimate.masked, made)
    alike = agreement(estimate.device, made, reference)
    if alike is None or alike < calibration.OPERANDS_ALIKE:
        return None
    floor = floor_of(reference, made, arithmetic.precision, context.ops)
    return Widen(floor, imitations=(made,), numbers={"cosine": alike})


TOLERANCE = Tolerance(
    "sums in turn",
    Stage.SUSPICIOUS,
    7,
    "the numbers were added up one after another, which loses what is small beside the sum",
    _apply,
)
