"""A closer look at one tensor pair: a histogram of its errors, ULP distances, and where
the bad elements sit. Slower than :func:`divergraph.comparison.measure.measure`, so it is
for tensors that are over a limit, or asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergraph.comparison.flat import blocks, flat
from divergraph.comparison.metrics import check_sides
from divergraph.comparison.own_values import absolute_errors
from divergraph.comparison.places import Places
from divergraph.comparison.sweep import bad_elements
from divergraph.comparison.ulps import common_unit, ulp_distances
from graphstore.model import DType, Figures

Float64 = NDArray[np.float64]

_BLOCK = 32_768
"""Elements looked at at once: many passes over few elements stay in the cache."""

_LEAST_DECADE, _MOST_DECADE = -324, 309
_POWERS_OF_TEN = np.array(
    [float(f"1e{decade}") for decade in range(_LEAST_DECADE, _MOST_DECADE)] + [math.inf]
)
_LEAST_POWER = -1100
"""Below the exponent of every distance counted."""


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
    """Distances in units of the last place of ``unit``, the coarser of both float types,
    over the ``counted`` pairs finite on both sides. ``powers[k]`` counts
    2^k <= distance < 2^(k+1); a golden value between two device values is part of a unit away.
    """

    unit: DType
    counted: int
    largest: float
    mean: float
    powers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Element:
    """One element: its index in the compared shape, and its values on both sides."""

    index: tuple[int, ...]
    device: float
    golden: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """``where_bad`` names the pattern of the bad elements (``channels 8-15 of axis 1``,
    empty if there is none), ``largest`` the elements of the largest error, worst first:
    NaN and infinities against other values, then by |x - y|, then by place."""

    histogram: ErrorHistogram
    ulps: UlpDistances | None
    where_bad: str
    largest: tuple[Element, ...]

    def joined_to(self, figures: Figures) -> Figures:
        """The figures with what this look adds to them."""
        largest = self.ulps.largest if self.ulps is not None else None
        return replace(figures, max_ulp=largest, where_bad=self.where_bad)


def inspect(
    device: NDArray[Any],
    golden: NDArray[Any],
    *,
    atol: float,
    rtol: float,
    types: tuple[DType | None, DType | None] = (None, None),
    layout: str | None = None,
    c0: int = 16,
    top: int = 0,
) -> Inspection:
    """The closer look at *device* (x) against *golden* (y), of one length.

    *atol* and *rtol* say which elements are bad (those of the tensor's figures), *types*
    what the sides were stored as (bfloat16 comes as float32 arrays; None: the array's own
    type), *layout* the letters of golden's axes (``NCHW``), *c0* the channels of one block
    of the device's layout, *top* how many of the largest errors are listed. Indices are of
    golden's shape. Memory does not grow with the tensors.

    Raises:
        ValueError: as :func:`divergraph.comparison.measure.measure`.
    """
    check_sides(device, golden)
    look = _Look(golden.shape, atol, rtol, _unit(device, golden, types), top)
    with np.errstate(all="ignore"):
        for start, x, y in blocks(_BLOCK, flat(device), flat(golden)):
            look.add(x, y, start)
    return Inspection(
        ErrorHistogram(look.equal, look.nonfinite, dict(sorted(look.decades.items()))),
        look.ulps(),
        look.places.pattern(layout, c0),
        tuple(element for _, element in look.largest),
    )


def _unit(
    device: NDArray[Any], golden: NDArray[Any], types: tuple[DType | None, DType | None]
) -> DType | None:
    sides = ((device, types[0]), (golden, types[1]))
    return common_unit(*(told or _type_of(array) for array, told in sides))


def _type_of(array: NDArray[Any]) -> DType | None:
    name = array.dtype.name
    return DType(name) if name in set(DType) else None


class _Look:
    """What was seen of the blocks so far."""

    def __init__(
        self, shape: tuple[int, ...], atol: float, rtol: float, unit: DType | None, top: int
    ) -> None:
        self.places = Places(shape)
        self.equal = self.nonfinite = 0
        self.decades: Counter[int] = Counter()
        self.largest: list[tuple[tuple[float, int], Element]] = []
        self._shape, self._atol, self._rtol, self._top = shape, atol, rtol, top
        self._unit = unit
        self._counted, self._largest_ulp = 0, 0.0
        self._ulp_sums: list[float] = []
        self._powers: Counter[int] = Counter()

    def add(self, x: NDArray[Any], y: NDArray[Any], start: int) -> None:
        """Look at one flat block that begins at place *start*."""
        errors = absolute_errors(x, y)
        self._count(errors, x, y)
        self.places.add(np.flatnonzero(bad_elements(x, y, self._atol, self._rtol)) + start)
        if self._top:
            self._rank(errors, x, y, start)
        if self._unit is not None:
            self._measure_ulps(x, y, self._unit)

    def ulps(self) -> UlpDistances | None:
        """The distances seen; None if they are not defined or no pair was finite."""
        if self._unit is None or not self._counted:
            return None
        mean = math.fsum(self._ulp_sums) / self._counted
        powers = dict(sorted(self._powers.items()))
        return UlpDistances(self._unit, self._counted, self._largest_ulp, mean, powers)

    def _count(self, errors: Float64, x: NDArray[Any], y: NDArray[Any]) -> None:
        finite = np.isfinite(x) & np.isfinite(y)
        self.equal += int(np.count_nonzero(errors == 0.0))
        self.nonfinite += int(np.count_nonzero((errors > 0.0) & ~finite))
        # The difference of two finite values may be too large for a float.
        sizes = np.minimum(errors[(errors > 0.0) & finite], np.finfo(np.float64).max)
        _add_counts(self.decades, _decades(sizes), _LEAST_DECADE)

    def _rank(self, errors: Float64, x: NDArray[Any], y: NDArray[Any], start: int) -> None:
        odd = ~(np.isfinite(x) & np.isfinite(y)) & (errors > 0.0)
        sizes = np.where(odd, np.inf, np.minimum(errors, np.finfo(np.float64).max))
        if len(self.largest) == self._top:
            places = np.flatnonzero(sizes > -self.largest[-1][0][0])
        else:
            places = np.flatnonzero(sizes > 0.0)
        # Stable, so that the earliest of several of one size are kept.
        places = places[np.argsort(-sizes[places], kind="stable")[: self._top]]
        for place in places.tolist():
            index = tuple(map(int, np.unravel_index(start + place, self._shape)))
            element = Element(index, float(x[place]), float(y[place]))
            self.largest.append(((-float(sizes[place]), start + place), element))
        self.largest = sorted(self.largest, key=lambda item: item[0])[: self._top]

    def _measure_ulps(self, x: NDArray[Any], y: NDArray[Any], unit: DType) -> None:
        finite = np.isfinite(x) & np.isfinite(y)
        distances = ulp_distances(x[finite], y[finite], unit)
        self._counted += len(distances)
        if len(distances):
            self._largest_ulp = max(self._largest_ulp, float(distances.max()))
            self._ulp_sums.append(float(distances.sum()))
            exponents = np.frexp(distances[distances > 0.0])[1] - 1
            _add_counts(self._powers, exponents, _LEAST_POWER)


def _decades(sizes: Float64) -> NDArray[np.int64]:
    """floor(log10) of positive finite values, exactly."""
    decades = np.floor(np.log10(sizes)).astype(np.int64)
    decades -= sizes < _POWERS_OF_TEN[decades - _LEAST_DECADE]
    decades += sizes >= _POWERS_OF_TEN[decades - _LEAST_DECADE + 1]
    return decades


def _add_counts(counter: Counter[int], numbers: NDArray[Any], least: int) -> None:
    counts = np.bincount(numbers.astype(np.int64) - least)
    counter.update({int(at) + least: int(counts[at]) for at in np.flatnonzero(counts)})
