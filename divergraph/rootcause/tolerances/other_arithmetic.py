"""An op that was computed in another arithmetic than its like, but one the device has as well.

Compilers choose kernels op by op: the first convolution may stay in float32, a transposed one may
have no kernel in bfloat16. Where an error is the one that an arithmetic of other ops of the run
makes, element by element, it is that arithmetic's; unless the one the op is taken to have makes
more of it already. Then the op is computed as its like are, and what is left is no arithmetic's.

A single product may take its operands in TF32 or HF32 where no other does: one depthwise kernel of
a library does, the next does not. Rounding leaves its very errors, which no fault does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.contract import format_named
from divergraph.rootcause.arithmetic.families import ReadOperands, family_of
from divergraph.rootcause.devices.arithmetic import agreement
from divergraph.rootcause.devices.floors import floor_of
from divergraph.rootcause.devices.precisions.fp32 import FP32
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
from divergraph.rootcause.tolerances.noise_floor import Emulation

_SHORT = ("tf32", "tf32, cut", "hf32", "hf32, cut")
"""Operands that stand for float32 where an engine has no more."""


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not estimate.are_floats:
        return None
    reference = estimate.reference
    limit = max(calibration.OPERANDS_ALIKE, _explained(estimate))
    for emulation, sure in _otherwise(context, limit):
        (output,) = emulation.emulated([context.group], [context.given])
        if output is None or output.shape != reference.shape:
            continue
        output = without(estimate.masked, output)
        alike = agreement(estimate.device, output, reference)
        if alike is not None and alike >= sure:
            floor = floor_of(reference, output, emulation.precision, context.ops)
            return Widen(floor, imitations=(output,), numbers={"cosine": alike})
    return None


def _otherwise(context: OpContext, limit: float) -> Iterator[tuple[Emulation, float]]:
    """The arithmetics to try, with the cosine from which the errors are theirs: *limit* of those
    the run has and of sums one number after another, next to 1 of short operands that no other op
    is known to take."""
    yield from ((emulation, limit) for emulation in context.others)
    arithmetic = context.arithmetic
    ops = [context.golden.ops[op] for op in context.group.ops]
    if not arithmetic.precision.rounds and any(map(sums_in_turn, ops)):
        yield replace(arithmetic, in_turn=True, plain=True), limit
    families = [family for op in ops if (family := family_of(op, context.golden)) is not None]
    chosen = context.options.precision, context.options.operands
    if arithmetic.precision is not FP32 or len(families) != 1 or chosen != (None, None):
        return
    for kind in map(format_named, _SHORT):
        if arithmetic.operands.families.get(families[0]) != kind:
            alone = replace(arithmetic, operands=ReadOperands({families[0]: kind}))
            yield alone, max(limit, calibration.OPERANDS_SEEN)


def _explained(estimate: ToleranceEstimate) -> float:
    """The cosine between the device's errors and those that are emulated already."""
    emulated = estimate.emulation
    if emulated is None or emulated.dtype.kind != "f":
        return 0.0
    return agreement(estimate.device, emulated, estimate.reference) or 0.0


TOLERANCE = Tolerance(
    "other arithmetic",
    Stage.SUSPICIOUS,
    5,
    "the op was computed as other ops of this run are, or with sums one number after another, and "
    "has the very errors that makes",
    _apply,
)
