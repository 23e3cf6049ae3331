"""One channel, head or row that errs many times as much as all others of its tensor.

Limits are as wide as they are for devices whose arithmetic is coarser than it is taken to be. That
makes all channels err more. So where all channels but one are alike, the others are the measure,
and a channel of 2.5 % too much in bfloat16 needs no factor of 10 to be wrong.
"""

from __future__ import annotations

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.floors import least_floor
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.last_place import scale_of
from divergraph.rootcause.tolerances.local_errors import noise_of
from divergraph.rootcause.tolerances.slices import lone_slice
from divergraph.rootcause.values import norms, relative


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    # In integers errors are no chance: "local error" holds slices against the very ones.
    if context.quantises or not estimate.are_floats or not estimate.imitations:
        return None
    introduced = relative(estimate.device, estimate.reference)
    # Of a tensor that is guilty as a whole the worst slice says no more, and would rank it by it.
    if not 0.0 < introduced <= context.options.guilty * estimate.floor:
        return None
    ratio = _ratio(context, estimate)
    if ratio <= calibration.LONE_RATIO:
        return None
    # Before one is called wrong: what it was given may have cancelled, and was rounded.
    group, feeds = context.group, context.given
    drawn = context.arithmetic.draws(group, feeds, calibration.ROUNDED_DRAWS)
    ratio = _ratio(context, estimate, *(x for x in drawn if x.shape == estimate.reference.shape))
    if ratio <= calibration.LONE_RATIO:
        return None
    floor = introduced / (context.options.guilty * ratio / calibration.LONE_RATIO)
    if floor >= estimate.floor:
        return None
    absolute = floor * norms(estimate.reference, estimate.reference)[1]
    return Narrow(floor, absolute, numbers={"over_others": ratio})


def _ratio(context: OpContext, estimate: ToleranceEstimate, *more: Array) -> float:
    noise = noise_of(context, estimate)
    smallest = noise.least * scale_of(estimate.reference)
    unit = least_floor(noise.precision, estimate.reference.size)
    sides = estimate.reference, estimate.device
    return lone_slice(*sides, (*noise.imitations, *more), unit, smallest)


TOLERANCE = Tolerance(
    "lone slice",
    Stage.HIDDEN,
    40,
    "one channel errs many times as much as all others of its tensor, which are alike",
    _apply,
)
