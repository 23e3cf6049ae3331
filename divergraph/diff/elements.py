"""One tensor pair element by element: which differ by more than a limit, and the worst.

Blocks of elements are looked at one after the other, so memory does not grow
with the tensors. Differences are float64; of 64-bit integers longdouble, which holds them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergraph.comparison.flat import Flat, blocks, flat
from divergraph.comparison.measure import Wanted

_BLOCK = 1 << 18
Array = NDArray[Any]


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

    def add(self, errors: NDArray[np.float64], start: int) -> None:
        if not self.most or not len(errors):
            return
        places = np.arange(len(errors))
        if len(errors) > self.most:
            edge = np.partition(errors, len(errors) - self.most)[-self.most]
            # Of equal errors the first ones: as many as fit, however many there are.
            above = np.flatnonzero(errors > edge)
            equal = np.flatnonzero(errors == edge)[: self.most]
            places = np.concatenate([above, equal])
        for place in places.tolist():
            entry = (float(errors[place]), -(start + place))
            if entry[0] <= 0.0:
                continue
            if len(self.heap) < self.most:
                heapq.heappush(self.heap, entry)
            else:
                heapq.heappushpop(self.heap, entry)

    def places(self) -> list[int]:
        return [-place for _, place in sorted(self.heap, reverse=True)]


def element_table(
    device: Array, golden: Array, want: Wanted, atol: float, *, first: int, top: int
) -> ElementTable:
    """The elements of *device* against *golden*, of the same shape.

    Bad ones are over *atol* + ``want.rtol`` |y|. At most *first* bad ones and *top* worst
    ones of each kind are listed.

    Raises:
        ValueError: elements are no real numbers.
    """
    for array in (device, golden):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"elements of type {array.dtype} have no differences")
    table = _Table(flat(device), flat(golden), tuple(golden.shape))
    return table.filled(atol, want.rtol, first, top)


@dataclass(frozen=True, slots=True)
class _Table:
    x: Flat
    y: Flat
    shape: tuple[int, ...]

    def filled(self, atol: float, rtol: float, first: int, top: int) -> ElementTable:
        absolute, relative = _Worst(top), _Worst(top)
        bad_places: list[int] = []
        bad_count = 0
        low, high = [math.inf, math.inf], [-math.inf, -math.inf]
        for start, error, ratio, size in self._blocks():
            with np.errstate(invalid="ignore"):
                bad = error > atol + rtol * size
            bad_count += int(np.count_nonzero(bad))
            if len(bad_places) < first:
                found = np.flatnonzero(bad)[: first - len(bad_places)]
                bad_places += (found + start).tolist()
            absolute.add(error, start)
            defined = ~np.isnan(ratio)
            relative.add(np.where(defined, ratio, -1.0), start)
            low[0], high[0] = min(low[0], error.min()), max(high[0], error.max())
            if defined.any():
                known = ratio[defined]
                low[1], high[1] = min(low[1], known.min()), max(high[1], known.max())
        return ElementTable(
            len(self.x),
            bad_count,
            tuple(map(self.element, bad_places)),
            tuple(map(self.element, absolute.places())),
            tuple(map(self.element, relative.places())),
            math.nan if high[0] < 0 else float(low[0]),
            math.nan if high[0] < 0 else float(high[0]),
            math.nan if high[1] < 0 else float(low[1]),
            math.nan if high[1] < 0 else float(high[1]),
        )

    def element(self, place: int) -> Element:
        """The element at this place of the flat tensor."""
        part = slice(place, place + 1)
        x, y = self.x[part], self.y[part]
        error, ratio, _ = _errors(x, y)
        index = np.unravel_index(place, self.shape) if self.shape else ()
        return Element(
            tuple(map(int, index)),
            _plain(x[0]),
            _plain(y[0]),
            float(error[0]),
            None if np.isnan(ratio[0]) else float(ratio[0]),
        )

    def _blocks(
        self,
    ) -> Iterator[tuple[int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
        for start, x, y in blocks(_BLOCK, self.x, self.y):
            yield start, *_errors(x, y)


def _errors(
    x: Array, y: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """|x - y|, |x - y| / |y| (NaN where y is 0) and |y| of a block."""
    wide = np.longdouble if 8 in (_integer_size(x), _integer_size(y)) else np.float64
    a: Array = x.astype(wide)
    b: Array = y.astype(wide)
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error[same] = 0
        error[np.isnan(error)] = math.inf
        size = np.abs(b)
        ratio = error / size
        ratio[same] = 0
        ratio[~same & np.isinf(error)] = math.inf
        ratio[b == 0] = math.nan
        size[~np.isfinite(size)] = 0  # NaN and infinity allow nothing
    return error.astype(np.float64), ratio.astype(np.float64), size.astype(np.float64)


def _integer_size(array: Array) -> int:
    return array.dtype.itemsize if array.dtype.kind in "iu" else 0


def _plain(value: Any) -> int | float:
    """A number of Python, exact: also a boolean is one here."""
    plain = value.item()
    return int(plain) if isinstance(plain, bool | int) else float(plain)
