"""Quantising with scales the graph does not tell: in kernels, in bodies, in what cannot be run."""

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


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    # Each op quantises by itself, so their errors add up like chance.
    kernels = calibration.INTEGER_KERNEL * math.sqrt(context.ops) if context.group.integers else 0.0
    bodies = calibration.HIDDEN_BODIES if _hides(context, told) else 0.0
    return Widen(max(kernels, bodies), numbers={"ops": context.ops}) if kernels or bodies else None


def _hides(context: OpContext, told: ToleranceEstimate) -> bool:
    """Whether a device that quantises may do so where nothing was emulated."""
    if not context.arithmetic.quantisers.by_tensor:
        return False
    if told.emulation is None:
        return True  # whatever it does, it is not among what was emulated
    ops = context.golden.ops
    return context.hidden_bodies and any(ops[op_id].owns for op_id in context.group.ops)


TOLERANCE = Tolerance(
    "unseen scales",
    Stage.KNOWN,
    10,
    "the device quantises here, or may inside of bodies, with scales its graph does not tell",
    _apply,
)
