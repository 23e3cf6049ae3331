"""Quantising with unknown scales: in integer kernels, in bodies, in groups that cannot be run.

Golden may be the coarse side: where it quantises with scales of the values it meets, a device that
computes the same in floats loses nothing.
"""

from __future__ import annotations

import math

from divergraph.rootcause import calibration
from divergraph.rootcause.arithmetic.families import Family, family_of
from divergraph.rootcause.devices.arithmetic import agreement
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    # Each op quantises independently, so their errors add up as the square root of their number.
    count = context.ops if context.group.integers else 0
    if not count and (count := _golden_only(context)) and _is_gain(estimate):
        count = 0  # steps of a quantiser do not point along the output
    kernels = calibration.INTEGER_KERNEL * math.sqrt(count)
    if context.group.integers and _is_recurrent(context):
        kernels = max(kernels, calibration.RECURRENT_KERNEL)
    bodies = calibration.HIDDEN_BODIES if _hides(context, estimate) else 0.0
    return Widen(max(kernels, bodies), numbers={"ops": context.ops}) if kernels or bodies else None


def _is_recurrent(context: OpContext) -> bool:
    ops = (context.golden.ops[op_id] for op_id in context.group.ops)
    return any(family_of(op) is Family.RECURRENT for op in ops)


def _golden_only(context: OpContext) -> int:
    """How many golden ops of the group quantise at run time, where nothing the device dumped shows
    that it does: the output of a quantiser is such a dump."""
    ops = (context.golden.ops.get(op_id) for op_id in context.group.ops)
    types = [op.type for op in ops if op is not None]
    alone = types == ["DynamicQuantizeLinear"]  # its integers themselves were dumped
    return 0 if alone else sum(op_type.startswith("DynamicQuantize") for op_type in types)


def _is_gain(estimate: ToleranceEstimate) -> bool:
    """Whether the error mostly points along the output."""
    along = agreement(estimate.device, 2 * estimate.reference, estimate.reference)
    return along is not None and abs(along) >= calibration.GAIN_SHARE


def _hides(context: OpContext, estimate: ToleranceEstimate) -> bool:
    """Whether a device that quantises may do so where nothing was emulated."""
    quantisers = context.arithmetic.quantisers
    if not quantisers.by_tensor:
        return False
    if estimate.emulation is None:
        return True  # nothing was emulated, so quantising was not either
    ops = [context.golden.ops[op_id] for op_id in context.group.ops]
    if quantisers.silent and _is_recurrent(context):
        return True
    return context.hidden_bodies and any(op.owns for op in ops)


TOLERANCE = Tolerance(
    "unseen scales",
    Stage.KNOWN,
    10,
    "one side quantises here, or may inside bodies, with scales its graph does not give",
    _apply,
)
