"""Devices that quantise as their graphs say: held against the quantised ops themselves.

What quantising costs, a per cent or so, is no chance where the scales are known: the same scales
make the same steps, and only values next to the middle between two steps may go either way.
"""

from __future__ import annotations

import math

from divergraph.rootcause import calibration
from divergraph.rootcause.devices.quantised_ops import healthy_ratio
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.noise_floor import least_floor
from divergraph.rootcause.values import relative


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    device, emulation, ops = told.device, told.emulation, context.quantised
    if emulation is None or told.unseen or told.masked is not None:
        return None
    introduced = relative(device, told.reference)
    if not 0.0 < introduced < math.inf or ops.kind(context.group) not in ops.kinds:
        return None
    # What rounding alone brings the device to from the emulation is right.
    least = least_floor(ops.floors.precision, emulation.size)
    if relative(device, emulation) <= healthy_ratio() * least:
        return None
    (expected,) = ops.expected([context.group], [context.given], [device])
    if expected is None or expected.ratio <= ops.suspect:
        return None
    floor = max(introduced / expected.ratio, calibration.QUANTISED_LEAST_FLOOR)
    return (
        None
        if floor >= told.floor
        else Narrow(floor, expected=expected.value, numbers={"over_exact": expected.ratio})
    )


TOLERANCE = Tolerance(
    "known scales",
    Stage.HIDDEN,
    10,
    "the graph tells all scales and the device keeps to them, so quantised ops are the yardstick",
    _apply,
    handed_on=True,
)
