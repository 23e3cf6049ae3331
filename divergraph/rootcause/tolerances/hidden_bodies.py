"""Ops of which is not known what they quantise: bodies nobody sees, and what does not emulate."""

from __future__ import annotations

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
    if not context.arithmetic.quantisers.by_tensor or not _hides(context, told):
        return None
    return Widen(calibration.HIDDEN_BODIES)


def _hides(context: OpContext, told: ToleranceEstimate) -> bool:
    if told.emulation is None:
        return True  # whatever it does, it is not among what was emulated
    ops = context.golden.ops
    return context.hidden_bodies and any(ops[op_id].owns for op_id in context.group.ops)


TOLERANCE = Tolerance(
    "hidden quantisation",
    Stage.KNOWN,
    20,
    "a device that quantises may do so inside a body or op of which the graph tells no scales",
    _apply,
)
