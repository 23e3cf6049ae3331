"""Golden's own call, run on golden's own inputs: how well what is run again gives what was run.

A definition that leaves something open (the epsilon of a module, sums in 16 bits) gives golden's
output only so well. The device's cannot be held to more.
"""

from __future__ import annotations

from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    error = context.group.golden_error
    return Widen(floor=error, numbers={"golden": error}) if error > estimate.floor else None


TOLERANCE = Tolerance(
    "golden's own call",
    Stage.KNOWN,
    5,
    "golden's call, run again on golden's inputs, gives golden's output only so well",
    _apply,
)
