"""An op that was computed in another arithmetic than its like, but one the device has as well.

Compilers choose kernels op by op: the first convolution may stay in float32, a transposed one may
have no kernel in bfloat16. Where an error is the one that an arithmetic of other ops of the run
makes, element by element, it is that arithmetic's; unless the one the op is taken to have makes
more of it already. Then the op is computed as its like are, and what is left is no arithmetic's.
"""

from __future__ import annotations

from divergraph.rootcause import calibration
from divergraph.rootcause.devices.arithmetic import agreement
from divergraph.rootcause.devices.floors import floor_of
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
    reference = estimate.reference
    least = max(calibration.OPERANDS_ALIKE, _explained(estimate))
    for each in context.others:
        (made,) = each.emulated([context.group], [context.given])
        if made is None or made.shape != reference.shape:
            continue
        made = without(estimate.masked, made)
        alike = agreement(estimate.device, made, reference)
        if alike is not None and alike >= least:
            floor = floor_of(reference, made, each.precision, context.ops)
            return Widen(floor, imitations=(made,), numbers={"cosine": alike})
    return None


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
    "the op was computed as other ops of this run are, and has the very errors that makes",
    _apply,
)
