"""Distances of numbers counted in units of the last place of a floating-point format.

A format's numbers, in order, are given whole positions; a number between two of them has a
position in between. The distance of two numbers is that of their positions, so it counts
the format's numbers from one to the other, over zero and powers of two alike.
"""

from __future__ import annotations

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
    """Positions of numbers; exact in float64 for formats of up to 32 bits."""
    wide = values.astype(np.float64)
    exponents = np.maximum(np.frexp(wide)[1] - 1, least_exponent)
    exponents[wide == 0.0] = least_exponent
    # Of a normal number the fraction is 1 to 2, of a subnormal one below 1.
    fractions = np.ldexp(np.abs(wide), mantissa_bits - exponents)
    positions: Float64 = fractions + np.ldexp(
        (exponents - least_exponent).astype(np.float64), mantissa_bits
    )
    np.negative(positions, out=positions, where=wide < 0.0)
    return positions


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
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)
