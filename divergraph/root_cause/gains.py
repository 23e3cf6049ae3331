"""A gain: an error that points the way of the output itself.

Rounding is by chance from element to element, so a norm of errors as large as usual may
still hold a factor of all elements, small but far above what chance makes. Along the output
the floor is lower: what the emulation is off by as a whole, and chance over many elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from divergraph.execution.contract import Array
from divergraph.root_cause.floors import least_floor
from divergraph.root_cause.precision import Precision
from divergraph.root_cause.second_look import Explained

_MOST_OF_IT = 0.7
"""Share of the error from which on it is a gain."""
_SPREAD = 3.0
_EMULATED = 2.0
_BLOCK = 1 << 15


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
    sums = _sums(reference.reshape(-1), device.reshape(-1), emulated.reshape(-1))
    if sums.energy == 0.0 or not math.isfinite(sums.apart):
        return told
    introduced = math.sqrt(sums.apart / sums.energy)
    gain = abs(sums.along) / sums.energy
    if not gain or gain < _MOST_OF_IT * introduced:
        return told
    usual = abs(sums.emulated_along) / sums.energy
    by_chance = told.floor * math.sqrt(sums.fourth) / sums.energy
    least = least_floor(precision, sums.count) * math.sqrt(max(ops, 1))
    floor = max(_EMULATED * usual, _SPREAD * by_chance, least)
    return replace(told, floor=min(told.floor, floor)) if math.isfinite(floor) else told


@dataclass
class _Sums:
    """Over the places where the reference is finite: how many there are, |r|², |d - r|²,
    (d - r)·r, (e - r)·r and the sum of r to the fourth."""

    count: int = 0
    energy: float = 0.0
    apart: float = 0.0
    along: float = 0.0
    emulated_along: float = 0.0
    fourth: float = 0.0


def _sums(reference: Array, device: Array, emulated: Array) -> _Sums:
    """Taken block by block: a whole tensor in float64 is several times what it holds."""
    found = _Sums()
    for start in range(0, reference.size, _BLOCK):
        right, given, made = (
            np.asarray(each[start : start + _BLOCK], np.float64)
            for each in (reference, device, emulated)
        )
        finite = np.isfinite(right)
        if not finite.all():
            right, given, made = right[finite], given[finite], made[finite]
        with np.errstate(all="ignore"):
            off, squares = given - right, np.square(right)
            found.count += right.size
            found.energy += float(np.sum(squares))
            found.apart += float(np.sum(np.square(off)))
            found.along += float(np.sum(off * right))
            found.emulated_along += float(np.sum((made - right) * right))
            found.fourth += float(np.sum(np.square(squares)))
    return found
