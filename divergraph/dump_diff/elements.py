"""One tensor pair element by element: which differ by more than a limit, and the worst.

Blocks of elements are looked at one after the other, so memory does not grow
with the tensors. Differences are those of the metrics: float64, of 64-bit integers too.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divergraph.metrics.flat import Flat, flat
from divergraph.metrics.inspection import finite_errors
from divergraph.values.array_types import Array, Bool, Float64


@dataclass(frozen=True, slots=True)
class Element:
    """One element. ``index`` is its place in golden's shape (N, C, H, W, ...), ``relative``
    is |x - y| / |y|, None where golden is 0. An error is infinite where one side is NaN
    or infinite and the other is not the same."""

    index: tuple[int, ...]
    device: int | float
    golden: int | float
    absolute: float
    relative: float | None


@dataclass(frozen=True, slots=True)
class ElementTable:
    """``first_bad`` are the first elements over the limits in C order, ``worst_absolute``
    and ``worst_relative`` the largest errors, worst first. Of the extremes those of the
    relative error leave out elements where golden is 0; NaN if there is none left."""

    total: int
    bad: int
    first_bad: tuple[Element, ...]
    worst_absolute: tuple[Element, ...]
    worst_relative: tuple[Element, ...]
    min_absolute: float = math.nan
    max_absolute: float = math.nan
    min_relative: float = math.nan
    max_relative: float = math.nan


@dataclass(slots=True)
class _Worst:
    """The *most* largest errors so far: (error, -place) in a heap."""

    most: int
    heap: list[tuple[float, int]] = field(default_factory=list)

    def add(self, errors: Float64, start: int, largest: float) -> None:
        """Look at the errors of a block, of which *largest* is the largest."""
        full = len(self.heap) == self.most
        edge = self.heap[0][0] if full and self.most else 0.0
        # Of equal errors the first ones count, and those were seen before.
        if not self.most or not largest > edge:
            return
        places = np.flatnonzero(errors > edge)
        if len(places) > self.most:
            bad_errors = errors[places]
            edge = np.partition(bad_errors, len(bad_errors) - self.most)[-self.most]
            # Of equal errors as many as fit, however many there are.
            above, equal = places[bad_errors > edge], places[bad_errors == edge][: self.most]
            places = np.concatenate([above, equal])
        for place in places.tolist():
            self._push((float(errors[place]), -(start + place)))

    def join(self, later: _Worst) -> None:
        """Add those of another part."""
        for entry in later.heap:
            self._push(entry)

    def _push(self, entry: tuple[float, int]) -> None:
        if len(self.heap) < self.most:
            heapq.heappush(self.heap, entry)
        else:
            heapq.heappushpop(self.heap, entry)

    def places(self) -> list[int]:
        return [-place for _, place in sorted(self.heap, reverse=True)]


@dataclass(slots=True)
class _Extremes:
    low: float = math.inf
    high: float = -math.inf

    def add(self, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)

    def told(self) -> tuple[float, float]:
        """Both, NaN where there were no errors."""
        return (math.nan, math.nan) if self.high < 0 else (self.low, self.high)


def check_elements(device: Array, golden: Array) -> None:
    """Refuse arrays whose elements are no real numbers.

    Raises:
        ValueError: they are not.
    """
    for array in (device, golden):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"elements of type {array.dtype} have no differences")


class FoundElements:
    """What was found in the blocks so far. Those of parts of a tensor join to what the
    whole would have given."""

    def __init__(self, atol: float, rtol: float, first: int, top: int) -> None:
        self._atol, self._rtol, self._first = atol, rtol, first
        self._bad = 0
        self._bad_places: list[int] = []
        self._absolute, self._relative = _Worst(top), _Worst(top)
        self._absolute_ends, self._relative_ends = _Extremes(), _Extremes()

    def add(self, x: Array, y: Array, start: int, errors: Float64, finite: bool) -> None:
        """Look at one flat block that begins at place *start* and has these *errors*;
        *finite* says whether those and all values are."""
        if not len(x):
            return
        ratio, size, defined = _ratio(errors, y)
        if not finite:  # NaN and infinity allow nothing; the same value twice is no error
            nonfinite = ~np.isfinite(size)
            ratio[nonfinite], size[nonfinite] = errors[nonfinite], 0.0
        largest = float(errors.max())
        if largest > self._atol:
            self._add_bad(errors, size, start)
        self._absolute.add(errors, start, largest)
        self._absolute_ends.add(float(errors.min()) if self._absolute_ends.low else 0.0, largest)
        largest = float(ratio.max())
        self._relative.add(ratio, start, largest)
        if defined is None:
            self._relative_ends.add(float(ratio.min()), largest)
        elif largest >= 0.0:
            self._relative_ends.add(float(ratio.min(where=defined, initial=math.inf)), largest)

    def join(self, later: FoundElements) -> None:
        """Add what was found in a part behind this one."""
        self._bad += later._bad
        self._bad_places += later._bad_places[: self._first - len(self._bad_places)]
        self._absolute.join(later._absolute)
        self._relative.join(later._relative)
        self._absolute_ends.add(later._absolute_ends.low, later._absolute_ends.high)
        self._relative_ends.add(later._relative_ends.low, later._relative_ends.high)

    def table(self, device: Array, golden: Array) -> ElementTable:
        """The elements found of these arrays."""
        x, y, shape = flat(device), flat(golden), tuple(golden.shape)
        first, absolute, relative = (
            tuple(_element(x, y, shape, place) for place in places)
            for places in (self._bad_places, self._absolute.places(), self._relative.places())
        )
        return ElementTable(
            len(x),
            self._bad,
            first,
            absolute,
            relative,
            *self._absolute_ends.told(),
            *self._relative_ends.told(),
        )

    def _add_bad(self, errors: Float64, size: Float64, start: int) -> None:
        with np.errstate(invalid="ignore"):
            bad = errors > self._atol + self._rtol * size
        self._bad += int(np.count_nonzero(bad))
        if len(self._bad_places) < self._first:
            places_of_bad = np.flatnonzero(bad)[: self._first - len(self._bad_places)]
            self._bad_places += (places_of_bad + start).tolist()


def _element(x: Flat, y: Flat, shape: tuple[int, ...], place: int) -> Element:
    """The element at this place of two flat tensors."""
    part = slice(place, place + 1)
    device, golden = x[part], y[part]
    errors, finite = finite_errors(device, golden)
    ratio = _ratio(errors, golden)[0] if finite else errors
    index = np.unravel_index(place, shape) if shape else ()
    return Element(
        tuple(map(int, index)),
        _plain(device[0]),
        _plain(golden[0]),
        float(errors[0]),
        None if golden[0] == 0 else float(ratio[0]),
    )


def _ratio(errors: Float64, golden: Array) -> tuple[Float64, Float64, Bool | None]:
    """|x - y| / |y| (-1 where y is 0), |y|, and where y is not 0 (None: it is nowhere)."""
    with np.errstate(all="ignore"):  # signalling NaN complain when they are cast
        size = np.abs(golden.astype(np.float64))
        if size.min() > 0.0:
            ratio, defined = errors / size, None
        else:
            defined = size != 0.0
            ratio = np.full(len(errors), -1.0)
            np.divide(errors, size, out=ratio, where=defined)
    return ratio, size, defined


def _plain(value: Any) -> int | float:
    """A number of Python, exact: also a boolean is one here."""
    plain = value.item()
    return int(plain) if isinstance(plain, bool | int) else float(plain)
