"""The noise floor of one output: the error that healthy arithmetic explains."""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.values import is_numeric, relative


def least_floor(precision: Precision, size: int) -> float:
    """The relative error that *size* values may have by one rounding: the floor is never less."""
    usual = precision.least_units * precision.unit
    return usual * (1.0 + calibration.CHANCE_OF_ONE_VALUE / math.sqrt(max(size, 1)))


def floor_of(reference: Array, emulated: Array | None, precision: Precision, ops: int) -> float:
    """The relative introduced error that healthy arithmetic explains, above 0 and finite.

    Without an emulation of the reference's shape it is that of a chain of *ops* roundings, times
    ``WITHOUT_EMULATION``.
    """
    rounding = least_floor(precision, reference.size)
    if emulated is None or not is_numeric(emulated) or emulated.shape != reference.shape:
        return rounding * calibration.WITHOUT_EMULATION * math.sqrt(ops + 1)
    loss = 0.0
    finite = np.isfinite(emulated) if emulated.dtype.kind in "fc" else None
    if finite is not None and not finite.all():
        sizes = np.abs(np.asarray(reference, np.float64))
        lost = np.count_nonzero(~finite & (sizes < calibration.NEXT_TO_INFINITY))
        # Each element the emulation loses counts as an error of its own usual size.
        loss = math.sqrt(lost / reference.size)
        emulated, reference = emulated[finite], reference[finite]
    off = relative(emulated, reference)
    return max(loss, off if math.isfinite(off) else 1.0, rounding)
