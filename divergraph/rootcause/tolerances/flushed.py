"""Numbers below the smallest normal one, set to zero."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause import calibration
from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.values import norms


def _apply(context: OpContext, told: ToleranceEstimate) -> Action:
    if not told.are_floats:
        return None
    reference, normal = told.reference, context.smallest_normal(told)
    flushed = (told.device == 0) & (reference != 0) & (np.abs(reference) < normal)
    lost = float(np.linalg.norm(np.asarray(reference[flushed], np.float64)))
    # What costs so much of the output is a fault.
    if not flushed.any() or lost > calibration.FLUSHED_SHARE * norms(reference, reference)[1]:
        return None
    places = {"places": int(np.count_nonzero(flushed))}
    return Exclude(np.where(flushed, np.nan, reference), numbers=places)


TOLERANCE = Tolerance(
    "flushed subnormals",
    Stage.SUSPICIOUS,
    40,
    "devices set numbers below the smallest normal one to zero",
    _apply,
)
