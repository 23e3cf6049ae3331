"""Blocks of tensors in their own types: exact differences, and their sums.

float64 holds no 64-bit integer beyond 2^53, and the square of no float64 beyond 1e154. So
64-bit integers are split into two halves that float64 holds, and values are scaled by a
power of two, which rounds nothing, before they are squared.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from divergraph.metrics.reductions import dot
from divergraph.metrics.sums import NO_VALUES, OwnSide, OwnSums, Scaled, Worst, power
from divergraph.values.array_types import Array, Bool, Float64

_LOW_HALF = 0xFFFF_FFFF
_LEAST, _MOST = 2.0**-400, 2.0**400
"""Values whose squares, and sums of them, are float64 with all digits."""

_NEAR_OVERFLOW = 2.0**1000
_DOWN = 8
"""Powers of two by which values near overflow are scaled before they are subtracted."""


class OwnBlock(NamedTuple):
    """Sums of a block in its own types; ``worst`` is None where nothing differs."""

    sums: OwnSums
    equal: int
    device_zeros: int
    golden_zeros: int
    worst: Worst | None


class _Values(NamedTuple):
    """Values as float64, rounded, and what rounding left of 64-bit integers: the values
    are exactly ``high`` + ``low``."""

    values: Float64
    high: Float64
    low: Float64 | None


def own_block(device: Array, golden: Array, start: int) -> OwnBlock:
    """The sums of one flat block that begins at place *start* of its tensor."""
    x, y = _values(device), _values(golden)
    known_x, known_y = np.isfinite(x.values), np.isfinite(y.values)
    both_finite = known_x & known_y
    side_x, side_y = _side(x.values, known_x), _side(y.values, known_y)
    peak = max(_peak(side_x), _peak(side_y))
    down = _DOWN if peak > _NEAR_OVERFLOW else 0
    error = _differences(x, y, down)
    np.abs(error, out=error)
    all_known = bool(both_finite.all())
    # Scaled down, the difference of subnormal numbers is 0, too.
    alike = x.values == y.values if down else error == 0.0
    if all_known:
        same = alike
        products = _products(x.values, y.values)
    else:
        error[~both_finite] = 0.0
        same = _same(x.values, y.values) | (both_finite & alike)
        products = _products(
            np.where(both_finite, x.values, 0.0), np.where(both_finite, y.values, 0.0)
        )
    noise = _products(error, error)[0]
    equal = int(np.count_nonzero(same))
    return OwnBlock(
        OwnSums(side_x, side_y, *products, Scaled(noise.value, noise.exponent + 2 * down)),
        equal,
        int(np.count_nonzero(x.values == 0.0)),
        int(np.count_nonzero(y.values == 0.0)),
        None if equal == len(same) else _worst(x, y, error, same | both_finite, start, down),
    )


def errors_and_finiteness(device: Array, golden: Array) -> tuple[Float64, bool]:
    """|x - y| of a flat block, in the own types: 0 for the same NaN or infinity on both sides,
    infinite for one against another value; and whether all errors and values are finite."""
    x, y = _values(device), _values(golden)
    error = _differences(x, y, 0)
    np.abs(error, out=error)
    # The same infinity twice, or NaN, leaves NaN here.
    if math.isfinite(float(np.maximum.reduce(error))):
        return error, True
    nonfinite = ~np.isfinite(error)
    infinite = np.where(_same(x.values, y.values), 0.0, math.inf)
    error[nonfinite] = infinite[nonfinite]
    return error, False


def _values(array: Array) -> _Values:
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8:
        values = array.astype(np.float64)
        return _Values(values, values, None)
    rest = array & array.dtype.type(_LOW_HALF)
    high, low = (array - rest).astype(np.float64), rest.astype(np.float64)
    return _Values(high + low, high, low)


def _differences(x: _Values, y: _Values, down: int) -> Float64:
    """x - y, rounded once, times 2 to the power of -*down*."""
    if down:
        return np.ldexp(x.values, -down) - np.ldexp(y.values, -down)
    result: Float64 = x.high - y.high
    if x.low is not None and y.low is not None:
        result += x.low - y.low
    elif x.low is not None:
        result += x.low
    elif y.low is not None:
        result -= y.low
    return result


def _same(x: Float64, y: Float64) -> Bool:
    result: Bool = (x == y) | (np.isnan(x) & np.isnan(y))
    return result


def _worst(x: _Values, y: _Values, error: Float64, fine: Bool, start: int, down: int) -> Worst:
    if fine.all():
        place = int(error.argmax())
        size = min(power(float(error[place]), down), sys.float_info.max)
    else:
        place, size = int(fine.argmin()), math.inf
    return Worst(size, start + place, float(x.values[place]), float(y.values[place]))


def _side(values: Float64, is_finite: Bool) -> OwnSide:
    count = int(np.count_nonzero(is_finite))
    nans = infinities = 0
    if count < len(values):
        nans = int(np.count_nonzero(np.isnan(values)))
        infinities = len(values) - count - nans
        values = values[is_finite]
    if not count:
        return NO_VALUES._replace(nans=nans, infinities=infinities)
    low, high = float(values.min()), float(values.max())
    exponent = _exponent(max(-low, high))
    if exponent:
        values = np.ldexp(values, -exponent)
    total = float(np.add.reduce(values))
    centred = values - total / count
    return OwnSide(
        count,
        Scaled(total, exponent),
        Scaled(dot(values, values), 2 * exponent),
        Scaled(dot(centred, centred), 2 * exponent),
        low,
        high,
        nans,
        infinities,
    )


def _products(x: Float64, y: Float64) -> tuple[Scaled, Scaled, Scaled]:
    """The sums of x^2, y^2 and x y."""
    (x, by_x), (y, by_y) = _scaled(x), _scaled(y)
    return (
        Scaled(dot(x, x), 2 * by_x),
        Scaled(dot(y, y), 2 * by_y),
        Scaled(dot(x, y), by_x + by_y),
    )


def _scaled(values: Float64) -> tuple[Float64, int]:
    """Values whose products are float64, and the power of two they are to be scaled by."""
    exponent = _exponent(float(np.maximum.reduce(np.abs(values))))
    return (np.ldexp(values, -exponent), exponent) if exponent else (values, 0)


def _exponent(peak: float) -> int:
    """The power of two to scale values up to *peak* by; 0 if they need none."""
    if peak == 0.0 or _LEAST < peak < _MOST:
        return 0
    return math.frexp(peak)[1]


def _peak(side: OwnSide) -> float:
    return max(-side.low, side.high) if side.elements else 0.0
