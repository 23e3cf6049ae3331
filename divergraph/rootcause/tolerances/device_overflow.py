"""NaN and infinities that the device's own arithmetic makes of these inputs."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)


def _apply(_context: OpContext, told: ToleranceEstimate) -> Action:
    emulated, reference, device = told.emulation, told.reference, told.device
    if emulated is None or device is None:
        return None
    if not all(each.dtype.kind == "f" for each in (emulated, reference, device)):
        return None
    # Only where both have none: an emulation that overflows excuses no wrong number.
    lost = ~np.isfinite(emulated) & ~np.isfinite(device)
    if not lost.any():
        return None
    places = {"places": int(np.count_nonzero(lost))}
    return Exclude(np.where(lost, np.nan, reference), numbers=places)


TOLERANCE = Tolerance(
    "overflow of the type",
    Stage.KNOWN,
    40,
    "the emulated arithmetic makes NaN or infinities at the same places",
    _apply,
)
