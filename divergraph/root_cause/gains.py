"""A gain: an error that points the way of the output itself.

Rounding is by chance from element to element, so a norm of errors as large as usual may
still hold a factor of all elements, small but far above what chance makes. Along the output
the floor is lower: what the emulation is off by as a whole, and chance over many elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from divergraph.execution.contract import Array
from divergraph.root_cause.floors import least_floor
from divergraph.root_cause.precision import Precision
from divergraph.root_cause.second_look import Explained

_MOST_OF_IT = 0.7
"""Share of the error from which on it is a gain."""
_SPREAD = 3.0
_EMULATED = 2.0


def with_gain_floor(
    told: Explained,
    device: Array,
    imitations: Sequence[Array],
    precision: Precision,
    ops: int,
) -> Explained:
    """*told* with the floor of a gain, if the error of *device* (of the reference's shape) is
    one; only for arithmetics whose floors are coarse."""
    reference = told.reference
    if precision not in (Precision.FP16, Precision.BF16) or not imitations:
        return told
    emulated = imitations[0]
    if not all(each.dtype.kind == "f" and each.size for each in (device, reference, emulated)):
        return told
    if emulated.shape != reference.shape:
        return told
    right = np.asarray(reference, np.float64).reshape(-1)
    finite = np.isfinite(right)
    right = right[finite]
    apart = np.asarray(device, np.float64).reshape(-1)[finite] - right
    energy = float(np.sum(np.square(right)))
    if energy == 0.0 or not np.isfinite(apart).all():
        return told
    introduced = float(np.sqrt(np.sum(np.square(apart)) / energy))
    gain = abs(float(np.sum(apart * right))) / energy
    if gain < _MOST_OF_IT * introduced:
        return told
    off = np.asarray(emulated, np.float64).reshape(-1)[finite] - right
    usual = abs(float(np.sum(off * right))) / energy
    by_chance = told.floor * math.sqrt(float(np.sum(np.square(np.square(right))))) / energy
    least = least_floor(precision, right.size) * math.sqrt(max(ops, 1))
    floor = max(_EMULATED * usual, _SPREAD * by_chance, least)
    return replace(told, floor=min(told.floor, floor)) if math.isfinite(floor) else told
