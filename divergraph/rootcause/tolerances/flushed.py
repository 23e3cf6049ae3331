"""Numbers below the smallest normal one, set to zero."""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.suspicious import are_floats, smallest_normal
from divergraph.rootcause.values import norms


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if not are_floats(told) or told.device is None:
        return None
    found = without_flushed(told.device, told.reference, smallest_normal(context, told))
    if found is told.reference:
        return None
    places = np.count_nonzero(np.isnan(found)) - np.count_nonzero(np.isnan(told.reference))
    return Exclude(found, numbers={"places": int(places)})


def without_flushed(device: Array, reference: Array, normal: float) -> Array:
    """*reference*, NaN where the *device* has zero for a number below *normal*; unchanged where
    that costs so much of the output that it is a fault."""
    flushed = (device == 0) & (reference != 0) & (np.abs(reference) < normal)
    if not flushed.any():
        return reference
    lost = float(np.linalg.norm(np.asarray(reference[flushed], np.float64)))
    _, scale = norms(reference, reference)
    little = lost <= calibration.FLUSHED_SHARE * scale
    return np.where(flushed, np.nan, reference) if little else reference


TOLERANCE = Tolerance(
    "flushed subnormals",
    Stage.SUSPICIOUS,
    40,
    "devices set numbers below the smallest normal one to zero",
    _apply,
)
