"""Values that went over the end of an integer's range and came in again at the other."""

from __future__ import annotations

import numpy as np

from divergraph.rootcause.causes.evidence import Cause, SampledTensors
from divergraph.rootcause.causes.words import count_text, share_text

_FEWEST = 3
_INSIDE = 0.02
"""How far the values that wrapped may lie inside of the range of the others, of that range."""


def wrapped_around(view: SampledTensors) -> Cause | None:
    """Just the values over a range are off by a whole number of times that range."""
    if view.d.size < 16:
        return None
    low, high = float(view.d.min()), float(view.d.max())
    size = high - low
    slack = _INSIDE * size
    outside = (view.r > high - slack) | (view.r < low + slack)
    over = outside & (np.abs(view.e) > 0.5 * size)
    count = int(np.count_nonzero(over))
    if count < _FEWEST or count > 0.5 * over.size:
        return None
    period = float(np.median(np.abs(view.e[over])))
    turns = np.round(view.e / period) if abs(period / size - 1.0) < 0.1 else None
    if turns is None or not view.fits(view.r + turns * period, rest=0.1):
        return None
    if np.any(turns[~outside]) or np.any(turns * np.sign(view.r - (low + high) / 2) > 0):
        return None
    return Cause(
        "wrapped_around",
        f"{count_text(count, 'value')} ({share_text(count, over.size)}) outside of {low:.4g} to "
        f"{high:.4g} came out {period:.4g} away, at the other end: they wrapped around, as an "
        "integer of too few bits does",
        0.95 if count >= 2 * _FEWEST else 0.75,
        {"period": period, "wrapped": count, "low": low, "high": high},
    )
