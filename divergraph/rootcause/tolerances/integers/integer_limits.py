"""Ops that choose among quantised values, run on the integers themselves.

Compilers move what dequantises behind a Clip, a maximum or a selection, whose limits then become
integers: 6 is 254 steps of 6/255 on one device and 255 on another. What comes out lies on the
steps of the input and is one step off.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
    input_quantisers,
)

_ON_THE_GRID = 1e-3
"""The share of a step up to which a value lies on it: float32 leaves 1e-5 of 255 steps."""


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not estimate.are_floats:
        return None
    for step in set(_steps(context)):
        device = np.asarray(estimate.device, np.float64) / step
        with np.errstate(invalid="ignore"):
            off_grid = np.abs(device - np.rint(device))
            off = np.abs(device - estimate.reference / step)
        there = ~np.isnan(off)
        if not there.any() or off[there].max() > 1.0 + _ON_THE_GRID:
            continue
        if np.nanmax(off_grid) <= _ON_THE_GRID:
            return Widen(bound=context.options.suspect, numbers={"step": step})
    return None


def _steps(context: OpContext) -> Iterator[float]:
    """The steps of the inputs that have one for all their values."""
    return (
        float(quantiser.scale.reshape(-1)[0])
        for _, quantiser in input_quantisers(context)
        if quantiser.scale.size == 1
    )


TOLERANCE = Tolerance(
    "integer limits",
    Stage.SUSPICIOUS,
    16,
    "an op that chooses among quantised values may be run on their integers, and is a step off",
    _apply,
)
