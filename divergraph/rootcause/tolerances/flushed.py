"""Subnormal numbers that the device flushed to zero."""

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


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not estimate.are_floats:
        return None
    reference, normal = estimate.reference, context.smallest_normal(estimate)
    flushed = (estimate.device == 0) & (reference != 0) & (np.abs(reference) < normal)
    lost = float(np.linalg.norm(np.asarray(reference[flushed], np.float64)))
    # A larger share of the output's norm would be a fault of its own.
    if not flushed.any() or lost > calibration.LEAST_LIMIT * norms(reference, reference)[1]:
        return None
    places = {"places": int(np.count_nonzero(flushed))}
    return Exclude(np.where(flushed, np.nan, reference), numbers=places)


TOLERANCE = Tolerance(
    "flushed subnormals",
    Stage.SUSPICIOUS,
    40,
    "devices flush subnormal numbers to zero",
    _apply,
)
