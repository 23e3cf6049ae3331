"""A detailed look at one tensor pair: a histogram of its errors, ULP distances, and where its bad
elements are. Slower than :func:`divergraph.metrics.measure.measure`, so it is made for tensors over
a limit or on request."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.metrics.error_places import Places
from divergraph.metrics.flat import blocks, flat
from divergraph.metrics.metrics import check_sides
from divergraph.metrics.native_values import errors_and_finiteness
from divergraph.metrics.second_pass import bad_elements
from divergraph.values.array_types import Array, Float64, Int64
from graphstore.model import DType, Figures

_BLOCK = 32_768
"""Elements of a block: many passes over a small block stay in the cache."""

_LEAST_DECADE, _MOST_DECADE = -324, 309
_ENDS = [float(f"1e{decade}") for decade in range(_LEAST_DECADE, _MOST_DECADE)]
_POWERS_OF_TEN = np.array([*_ENDS, math.inf])
_FEW = 64
"""Share of a block's errors below which the rest is sorted one by one."""


@dataclass(frozen=True, slots=True)
class ErrorHistogram:
    """Elements by size of |x - y|: ``decades[d]`` counts 10^d <= |x - y| < 10^(d+1).

    ``equal`` counts equal ones (both NaN too), ``nonfinite`` those where NaN or infinity
    stands against another value.
    """

    equal: int
    nonfinite: int
    decades: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UlpDistances:
    """Distances in units of the last place (ULP) of ``unit``, the coarser of both float types, over
    the ``counted`` pairs that are finite on both sides. They may be fractions: golden may lie
    between two numbers of the coarser type."""

    unit: DType
    counted: int
    largest: float
    mean: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """``where_bad`` names the pattern of the bad elements (``channels 8-15 of axis 1``,
    empty if there is none)."""

    histogram: ErrorHistogram
    ulps: UlpDistances | None
    where_bad: str

    def joined_to(self, figures: Figures) -> Figures:
        """*figures* with the ULP distances and the pattern of bad elements."""
        largest = self.ulps.largest if self.ulps is not None else None
        return replace(figures, max_ulp=largest, where_bad=self.where_bad)


def inspect(
    device: Array,
    golden: Array,
    *,
    atol: float,
    rtol: float,
    types: tuple[DType | None, DType | None] = (None, None),
    layout: str | None = None,
    c0: int = 16,
) -> Inspection:
    """The detailed look at *device* (x) against *golden* (y), of one length.

    *atol* and *rtol* say which elements are bad (those of the tensor's figures), *types*
    what the sides were stored as (bfloat16 comes as float32 arrays; None: the array's own
    type), *layout* the letters of golden's axes (``NCHW``), *c0* the channels of one block
    of the device's layout. Memory does not grow with the tensors.

    Raises:
        ValueError: as :func:`divergraph.metrics.measure.measure`.
    """
    check_sides(device, golden)
    look = Look(golden.shape, atol, rtol, unit_of(device, golden, types))
    for start, x, y in blocks(_BLOCK, flat(device), flat(golden)):
        errors, finite = finite_errors(x, y)
        look.add(x, y, start, errors, finite)
    return look.result(layout, c0)


def finite_errors(x: Array, y: Array) -> tuple[Float64, bool]:
    """The errors of a block, and whether all errors and values are finite."""
    with np.errstate(all="ignore"):
        return errors_and_finiteness(x, y)


def unit_of(device: Array, golden: Array, types: tuple[DType | None, DType | None]) -> DType | None:
    """The type whose last place is the unit of distances; None if a side is not a float."""
    sides = ((device, types[0]), (golden, types[1]))
    return common_unit(*(dtype or _type_of(array) for array, dtype in sides))


def _type_of(array: Array) -> DType | None:
    name = array.dtype.name
    return DType(name) if name in set(DType) else None


class Look:
    """What the blocks so far have shown; *shape* is golden's. Results of parts combine to that of
    the whole, however it was divided. With *at_most*, no pattern is looked for among more bad
    elements."""

    def __init__(
        self,
        shape: tuple[int, ...],
        atol: float,
        rtol: float,
        unit: DType | None,
        at_most: int | None = None,
    ) -> None:
        self._places = Places(shape, at_most)
        self._equal = self._nonfinite = 0
        self._decades: Counter[int] = Counter()
        self._atol, self._rtol, self._unit = atol, rtol, unit
        self._counted, self._largest_ulp = 0, 0.0
        self._ulp_sums: list[float] = []

    def add(self, x: Array, y: Array, start: int, errors: Float64, finite: bool) -> None:
        """Add one flat block that begins at place *start* and has these *errors*."""
        with np.errstate(all="ignore"):
            self._count(x, y, errors, finite)
            # No bound is below the absolute tolerance.
            if len(errors) and not errors.max() <= self._atol:
                bad = bad_elements(x, y, self._atol, self._rtol)
                self._places.add(np.flatnonzero(bad) + start)
            if self._unit is not None:
                self._measure_ulps(x, y, self._unit, finite)

    def join(self, later: Look) -> None:
        """Add the result of the part after this one."""
        self._places.join(later._places)
        self._equal += later._equal
        self._nonfinite += later._nonfinite
        self._decades.update(later._decades)
        self._counted += later._counted
        self._largest_ulp = max(self._largest_ulp, later._largest_ulp)
        self._ulp_sums += later._ulp_sums

    def result(self, layout: str | None, c0: int) -> Inspection:
        """The result of all blocks added."""
        ulps = None
        if self._unit is not None and self._counted:
            mean = math.fsum(self._ulp_sums) / self._counted
            ulps = UlpDistances(self._unit, self._counted, self._largest_ulp, mean)
        return Inspection(
            ErrorHistogram(self._equal, self._nonfinite, dict(sorted(self._decades.items()))),
            ulps,
            self._places.pattern(layout, c0),
        )

    def _count(self, x: Array, y: Array, errors: Float64, finite: bool) -> None:
        if not finite:
            both_finite = np.isfinite(x) & np.isfinite(y)
            self._nonfinite += int(np.count_nonzero((errors > 0.0) & ~both_finite))
            self._equal += int(np.count_nonzero(~both_finite & (errors == 0.0)))
            # The difference of two finite values may be too large for a float.
            errors = np.minimum(errors[both_finite], np.finfo(np.float64).max)
        differing = int(np.count_nonzero(errors > 0.0))
        self._equal += len(errors) - differing
        if differing:
            _count_decades(errors, differing, self._decades)

    def _measure_ulps(self, x: Array, y: Array, unit: DType, finite: bool) -> None:
        if not finite:
            both_finite = np.isfinite(x) & np.isfinite(y)
            x, y = x[both_finite], y[both_finite]
        distances = ulp_distances(x, y, unit)
        self._counted += len(distances)
        if len(distances):
            self._largest_ulp = max(self._largest_ulp, float(distances.max()))
            self._ulp_sums.append(float(distances.sum()))


def _count_decades(errors: Float64, remaining: int, counts: Counter[int]) -> None:
    """Count the *remaining* errors (above 0) by decade, from the largest down: comparing all is
    much faster than a logarithm of each."""
    decade = int(_decades(errors.max(keepdims=True))[0])
    counted = 0
    while remaining > len(errors) // _FEW and decade > _LEAST_DECADE:
        more = int(np.count_nonzero(errors >= _ENDS[decade - _LEAST_DECADE])) - counted
        if more:
            counts[decade] += more
        counted, remaining, decade = counted + more, remaining - more, decade - 1
    if remaining:
        small = errors[(errors > 0.0) & (errors < _ENDS[decade + 1 - _LEAST_DECADE])]
        decade_counts = np.bincount(_decades(small) - _LEAST_DECADE)
        counts.update(
            {
                int(at) + _LEAST_DECADE: int(decade_counts[at])
                for at in np.flatnonzero(decade_counts)
            }
        )


def _decades(sizes: Float64) -> Int64:
    """floor(log10) of positive finite values, exactly."""
    decades = np.floor(np.log10(sizes)).astype(np.int64)
    decades -= sizes < _POWERS_OF_TEN[decades - _LEAST_DECADE]
    decades += sizes >= _POWERS_OF_TEN[decades - _LEAST_DECADE + 1]
    return decades


# The numbers of a format, in order, have whole positions; a number between two of them has a
# position in between. The distance of two numbers is that of their positions, so it counts the
# format's numbers from one to the other, over zero and powers of two alike.
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


def ulp_distances(x: Array, y: Array, unit: DType) -> Float64:
    """Distances of finite numbers in units of the last place of *unit*, 0 or more."""
    if unit is DType.FLOAT64:
        return _in_between(x.astype(np.float64).view(np.int64), y.astype(np.float64).view(np.int64))
    if unit is DType.FLOAT32 and x.dtype == y.dtype == np.float32:
        return _in_between(*(np.ascontiguousarray(side).view(np.int32) for side in (x, y)))
    result: Float64 = np.abs(_positions(x, *_FORMATS[unit]) - _positions(y, *_FORMATS[unit]))
    return result


def _positions(values: Array, mantissa_bits: int, least_exponent: int) -> Float64:
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


def _in_between(x: Array, y: Array) -> Float64:
    """How many float64 numbers lie between numbers given by their bits as int64, as float64: there
    are more of them than float64 can count exactly."""
    first, second = _ordered(x), _ordered(y)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    # Wrapping subtraction of the smaller from the larger is exact in unsigned integers.
    distance = np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned)
    result: Float64 = distance.astype(np.float64)
    return result


def _ordered(bits: Array) -> Array:
    """The bits as integers in the order of the numbers: those of negative numbers run backwards."""
    negative = bits >> (8 * bits.dtype.itemsize - 1)  # -1, else 0
    result = bits & np.iinfo(bits.dtype).max
    result ^= negative
    result -= negative
    return result
