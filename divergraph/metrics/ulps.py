"""Distances of numbers counted in units of the last place of a floating-point format.

A format's numbers, in order, are given whole positions; a number between two of them has a
position in between. The distance of two numbers is that of their positions, so it counts
the format's numbers from one to the other, over zero and powers of two alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType

Float64 = NDArray[np.float64]

_FORMATS: dict[DType, tuple[int, int]] = {
    DType.FLOAT64: (52, -1022),
    DType.FLOAT32: (23, -126),
    DType.FLOAT16: (10, -14),
    DType.BFLOAT16: (7, -126),
    DType.FLOAT8_E4M3FN: (3, -6),
    DType.FLOAT8_E4M3FNUZ: (3, -7),
    DType.FLOAT6_E2M3: (3, 0),
    DType.FLOAT8_E5M2: (2, -14),
    DType.FLOAT8_E5M2FNUZ: (2, -15),
    DType.FLOAT6_E3M2: (2, -2),
    DType.FLOAT4_E1M2: (2, 0),
    DType.FLOAT4_E2M1: (1, 0),
}
"""Stored bits of the mantissa, and the exponent of the smallest normal number."""

_FRACTION_BITS, _BIAS = 52, 1023
"""Of float64."""


def common_unit(device: DType | None, golden: DType | None) -> DType | None:
    """The coarser of two float types; None if one is no float type of fixed mantissa."""
    if device not in _FORMATS or golden not in _FORMATS:
        return None
    return min(device, golden, key=lambda dtype: _FORMATS[dtype][0])


def ulp_distances(x: NDArray[Any], y: NDArray[Any], unit: DType) -> Float64:
    """Distances of finite numbers in units of the last place of *unit*, 0 or more."""
    if unit is DType.FLOAT64:
        return _in_between(x.astype(np.float64).view(np.int64), y.astype(np.float64).view(np.int64))
    if unit is DType.FLOAT32 and x.dtype == y.dtype == np.float32:
        return _in_between(*(np.ascontiguousarray(side).view(np.int32) for side in (x, y)))
    result: Float64 = np.abs(_positions(x, *_FORMATS[unit]) - _positions(y, *_FORMATS[unit]))
    return result


def _positions(values: NDArray[Any], mantissa_bits: int, least_exponent: int) -> Float64:
    """Positions of numbers; exact in float64 for formats of up to 32 bits.

    The bits of a float64, its exponent above its fraction, are such a position already.
    """
    wide = values.astype(np.float64)
    sizes = np.abs(wide)
    first_normal = (least_exponent + _BIAS) << _FRACTION_BITS
    bits = sizes.view(np.int64)
    subnormal = bits < first_normal
    positions: Float64 = (bits - (first_normal - (1 << _FRACTION_BITS))).astype(np.float64)
    positions *= math.ldexp(1.0, mantissa_bits - _FRACTION_BITS)
    if subnormal.any():
        positions[subnormal] = np.ldexp(sizes[subnormal], mantissa_bits - least_exponent)
    result: Float64 = np.copysign(positions, wide)
    return result


def _in_between(x: NDArray[Any], y: NDArray[Any]) -> Float64:
    """How many numbers lie between numbers given by their bits as signed integers: float64
    has more numbers than it can count."""
    first, second = _ordered(x), _ordered(y)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    # Wrapping subtraction of the smaller from the larger is exact in unsigned integers.
    distance = np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned)
    result: Float64 = distance.astype(np.float64)
    return result


def _ordered(bits: NDArray[Any]) -> NDArray[Any]:
    """Integers in the order of the numbers: those of negative numbers run backwards."""
    negative = bits >> (8 * bits.dtype.itemsize - 1)  # -1, else 0
    result = bits & np.iinfo(bits.dtype).max
    result ^= negative
    result -= negative
    return result
