"""A tensor pair as pictures: its errors by decade and by place, the device's values over golden's.

Blocks of elements are looked at one after the other, so memory does not grow with the tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, prod

import numpy as np

from divergraph.dump_diff.elements import ElementTable, FoundElements, check_elements
from divergraph.metrics.flat import blocks, flat
from divergraph.metrics.inspection import Inspection, Look, finite_errors, unit_of
from divergraph.values.array_types import Array, Float64, Int64
from graphstore.model import DType

CELLS = 1024
"""The most cells along an axis; of longer ones several indices share a cell."""
SCATTERED = 1 << 24
"""Pairs of values a scatter plot takes; of larger tensors it takes every n-th block."""

_BLOCK = 32_768
_PLOT = 256
"""Cells of a scatter plot along both axes."""


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """The mean |x - y| by place along one or two ``axes``, over all other axes.

    ``means`` has a dimension for each of ``axes``; a cell holds ``steps`` indices of its axis, the
    last one perhaps fewer. A mean is infinite where NaN or infinity stands against another value.
    """

    axes: tuple[int, ...]
    steps: tuple[int, ...]
    means: Float64

    @property
    def most(self) -> float:
        """The largest finite mean; 0 if there is none."""
        return float(np.max(self.means[np.isfinite(self.means)], initial=0.0))


@dataclass(frozen=True, slots=True)
class ValueScatter:
    """Pairs of finite values: ``counts[row, column]``, by the device's value upwards and golden's
    to the right, both from ``low`` to ``high``. ``taken`` of all pairs were looked at."""

    counts: Int64
    low: float
    high: float
    taken: int


@dataclass(frozen=True, slots=True)
class ErrorPicture:
    """What a tensor pair looks like. ``by_axis`` has a map for each axis of more than one index,
    the axis first that tells most of where the errors are. ``scatter`` is None without a pair of
    finite values."""

    shape: tuple[int, ...]
    table: ElementTable
    inspection: Inspection
    by_axis: tuple[ErrorMap, ...]
    scatter: ValueScatter | None

    @property
    def is_apart(self) -> bool:
        """Whether the errors are of two kinds, many small ones and, decades above, larger ones: so
        a fault in a part, and no drift. Between both stands a decade with next to nothing."""
        decades = self.inspection.histogram.decades
        counts = (
            [decades.get(n, 0) for n in range(min(decades), max(decades) + 1)] if decades else []
        )
        # A tail that thins out has ever fewer; a second kind has more than what lies between.
        return any(
            4 * counts[at] < min(max(counts[at + 1 :]), sum(counts[:at]))
            for at in range(1, len(counts) - 1)
        )

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """What maps can be made along: single axes, then pairs, the most telling first."""
        single = [picture.axes[0] for picture in self.by_axis]
        pairs = [tuple(sorted(pair)) for pair in combinations(single, 2)]
        return [*((axis,) for axis in single), *pairs]


def error_picture(
    device: Array,
    golden: Array,
    *,
    atol: float,
    rtol: float,
    types: tuple[DType | None, DType | None] = (None, None),
    layout: str | None = None,
    worst: int = 100,
) -> ErrorPicture:
    """The picture of *device* against *golden*, of one shape, with the *worst* elements.

    *atol* and *rtol* say which elements are bad, *types* what the sides were stored as, *layout*
    the letters of golden's axes.

    Raises:
        ValueError: the elements are no real numbers.
    """
    check_elements(device, golden)
    shape = golden.shape
    look = Look(shape, atol, rtol, unit_of(device, golden, types), golden.size // 2)
    elements = FoundElements(atol, rtol, 0, worst)
    maps = [_Means(shape, (axis,), (CELLS,)) for axis, size in enumerate(shape) if size > 1]
    squares, ends = 0.0, _Ends()
    for start, x, y in blocks(_BLOCK, flat(device), flat(golden)):
        errors, finite = finite_errors(x, y)
        look.add(x, y, start, errors, finite)
        elements.add(x, y, start, errors, finite)
        ends.add(x, y)
        for means in maps:
            means.add(errors, start)
        squares += float(np.square(errors[np.isfinite(errors)]).sum())
    error_maps = [means.result() for means in maps]
    error_maps.sort(key=lambda picture: -_contrast(picture, golden.size, squares))
    return ErrorPicture(
        tuple(shape),
        elements.table(device, golden),
        look.result(layout, 16),
        tuple(error_maps),
        _scatter(device, golden, ends),
    )


def error_map(device: Array, golden: Array, axes: Sequence[int], cells: Sequence[int]) -> ErrorMap:
    """The map of |x - y| along one or two *axes*, in at most so many *cells* of each."""
    means = _Means(golden.shape, tuple(axes), tuple(cells))
    for start, x, y in blocks(_BLOCK, flat(device), flat(golden)):
        means.add(finite_errors(x, y)[0], start)
    return means.result()


class _Means:
    """Sums of errors by cell, block after block."""

    def __init__(self, shape: Sequence[int], axes: tuple[int, ...], cells: tuple[int, ...]) -> None:
        self._axes = axes
        self._sizes = [shape[axis] for axis in axes]
        self._strides = [prod(shape[axis + 1 :]) for axis in axes]
        self._steps = [
            max(1, ceil(size / cell_count))
            for size, cell_count in zip(self._sizes, cells, strict=True)
        ]
        self._shape = [
            ceil(size / step) for size, step in zip(self._sizes, self._steps, strict=True)
        ]
        self._sums = np.zeros(prod(self._shape))
        self._each = prod(shape) // max(1, prod(self._sizes))

    def add(self, errors: Float64, start: int) -> None:
        """Add a flat block that begins at place *start*."""
        place = np.arange(start, start + len(errors))
        cell = np.zeros(len(errors), np.int64)
        for size, stride, step, count in zip(
            self._sizes, self._strides, self._steps, self._shape, strict=True
        ):
            cell = cell * count + place // stride % size // step
        self._sums += np.bincount(cell, weights=errors, minlength=len(self._sums))

    def result(self) -> ErrorMap:
        """The means of all blocks added."""
        counts = np.full(self._shape, float(self._each))
        for axis, (size, step, count) in enumerate(
            zip(self._sizes, self._steps, self._shape, strict=True)
        ):
            lengths = np.full(count, float(step))
            lengths[-1] = size - step * (count - 1)
            counts *= lengths.reshape([-1 if at == axis else 1 for at in range(counts.ndim)])
        return ErrorMap(self._axes, tuple(self._steps), self._sums.reshape(self._shape) / counts)


class _Ends:
    """The least and the largest finite value of both sides."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, *sides: Array) -> None:
        for side in sides:
            finite = side[np.isfinite(side)] if side.dtype.kind == "f" else side
            if len(finite):
                self.low = min(self.low, float(finite.min()))
                self.high = max(self.high, float(finite.max()))


def _contrast(picture: ErrorMap, elements: int, squares: float) -> float:
    """How much more the means of an axis differ than those of errors without a place would: the F
    statistic of an analysis of variance, but for the few degrees of freedom of the rest."""
    means = picture.means
    if not np.isfinite(means).all():
        means = np.isinf(means).astype(np.float64)
        squares = float(np.count_nonzero(means)) * elements / means.size
    per_mean = elements / means.size
    between = float(np.square(means - means.mean()).sum()) * per_mean
    rest = max(squares - elements * float(means.mean()) ** 2 - between, 0.0)
    if not between:
        return 0.0
    if not rest:
        return np.inf
    return between / max(1, means.size - 1) / (rest / max(1, elements - means.size))


def _scatter(device: Array, golden: Array, ends: _Ends) -> ValueScatter | None:
    if not ends.low <= ends.high:
        return None
    low, high = ends.low, ends.high
    width = (high - low) or 1.0
    counts = np.zeros(_PLOT * _PLOT, np.int64)
    every = max(1, golden.size // SCATTERED)
    elements = 0
    for number, (_, x, y) in enumerate(blocks(_BLOCK, flat(device), flat(golden))):
        if number % every:
            continue
        elements += len(x)
        with np.errstate(invalid="ignore", over="ignore"):
            rows, columns = ((side.astype(np.float64) - low) / width * _PLOT for side in (x, y))
        is_finite = np.isfinite(rows) & np.isfinite(columns)
        cells = [
            np.minimum(places_of_axis[is_finite].astype(np.int64), _PLOT - 1)
            for places_of_axis in (rows, columns)
        ]
        counts += np.bincount(cells[0] * _PLOT + cells[1], minlength=counts.size)
    return ValueScatter(counts.reshape(_PLOT, _PLOT), low, high, elements)
