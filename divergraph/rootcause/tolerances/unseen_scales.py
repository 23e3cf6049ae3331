"""Quantising with unknown scales: in integer kernels, in bodies, in groups that cannot be run."""

from __future__ import annotations

import math

from divergraph.rootcause import calibration
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
    kernels = calibration.INTEGER_KERNEL * math.sqrt(context.ops) if context.group.integers else 0.0
    bodies = calibration.HIDDEN_BODIES if _hides(context, estimate) else 0.0
    return Widen(max(kernels, bodies), numbers={"ops": context.ops}) if kernels or bodies else None


def _hides(context: OpContext, estimate: ToleranceEstimate) -> bool:
    """Whether a device that quantises may do so where nothing was emulated."""
    if not context.arithmetic.quantisers.by_tensor:
        return False
    if estimate.emulation is None:
        return True  # nothing was emulated, so quantising was not either
    ops = context.golden.ops
    return context.hidden_bodies and any(ops[op_id].owns for op_id in context.group.ops)


TOLERANCE = Tolerance(
    "unseen scales",
    Stage.KNOWN,
    10,
    "the device quantises here, or may inside bodies, with scales its graph does not give",
    _apply,
)
