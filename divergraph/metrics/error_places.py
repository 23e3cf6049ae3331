"""Where the bad elements of a tensor are: in which channels, rows, tiles.

Counts per index of each axis show it. Being confined to a few indices of an axis is a pattern only
if chance would not do the same: a handful of scattered bad elements always lies at a handful of
indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from divergraph.values.array_types import Array, Int64

Counts = Int64

_NAMES = {"N": "samples", "C": "channels", "H": "rows", "W": "columns", "D": "depths"}
_DENSE = 0.5
"""Share of the elements at the named indices that must be bad where there are few bad ones."""

_FULL = 0.9
"""Share of a range of places that bad elements must fill; a box filled that much is named
instead."""

_MANY = 12
"""Bad elements per index of an axis above which an index without any is no chance: scattered ones
leave out a given index once in e^12 = 160,000 times."""

_STRAY = 0.05
"""Share of the elements that may lie outside of a pattern."""

_MOST = 0.9
"""Largest share of an axis that is worth naming."""

_LONGEST = 1 << 20
"""Longer axes are not counted: a list of a million channels would say nothing."""

_LISTED = 4
"""Indices that are listed one by one."""


class _Some(NamedTuple):
    """Counts that are not 0, and their indices."""

    places: Counts
    counts: Counts

    @classmethod
    def of(cls, counts: Counts) -> _Some:
        places = np.flatnonzero(counts)
        return cls(places, counts[places])


class Places:
    """Counts of bad elements per index of each axis of a tensor of *shape*.

    With *at_most* it gives up above that many: the bad elements of a tensor that is wrong
    everywhere form no pattern, and counting them costs time.
    """

    def __init__(self, shape: tuple[int, ...], at_most: int | None = None) -> None:
        self._shape = shape
        self._at_most = prod(shape) if at_most is None else at_most
        self._counts: dict[int, Counts | _Some] = {}
        self._bad = 0
        self._ends = (-1, -1)

    def add(self, places: Array) -> None:
        """Count elements at flat *places*, in ascending order and after all counted before."""
        if not len(places):
            return
        if self._bad + len(places) > self._at_most:
            self._bad += len(places)
            return
        first = self._ends[0] if self._bad else int(places[0])
        self._ends = first, int(places[-1])
        self._bad += len(places)
        if not self._shape:
            return  # the one element of a scalar sits on no axis
        indices = np.unravel_index(places, self._shape)
        for axis, counts in self._axes():
            # Places lie close together, so their indices are a small part of a long axis.
            low = int(indices[axis].min())
            some = np.bincount(indices[axis] - low)
            counts[low : low + len(some)] += some

    def fresh(self) -> Places:
        """An empty count for a tensor of the same shape."""
        return Places(self._shape, self._at_most)

    def join(self, later: Places) -> None:
        """Add the counts of a later part of the tensor."""
        if not later._bad:
            return
        self._ends = (self._ends if self._bad else later._ends)[0], later._ends[1]
        self._bad += later._bad
        for axis, counts in self._axes():
            some = later._counts.get(axis)
            if isinstance(some, _Some):
                counts[some.places] += some.counts
            elif some is not None:
                np.add(counts, some, out=counts)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled sparsely: most counts of a part of a tensor are 0."""
        some = {
            axis: counts if isinstance(counts, _Some) else _Some.of(counts)
            for axis, counts in self._counts.items()
        }
        return {**self.__dict__, "_counts": some}

    def _axes(self) -> Iterator[tuple[int, Counts]]:
        """The axes whose indices are counted, with the counts."""
        for axis, size in enumerate(self._shape):
            if 1 < size <= _LONGEST:
                counts = self._counts.get(axis)
                if not isinstance(counts, np.ndarray):
                    was = counts
                    counts = self._counts[axis] = np.zeros(size, np.int64)
                    if was is not None:
                        counts[was.places] = was.counts
                yield axis, counts

    def pattern(self, layout: str | None, c0: int) -> str:
        """Where the bad elements are, in words; empty without a pattern.

        *layout* has a letter for each axis; *c0* is the number of channels in a block.
        """
        elements = prod(self._shape)
        if not self._bad:
            return ""
        if self._bad == elements:
            return "all elements"
        if self._bad > self._at_most:
            return ""
        if self._bad == 1:
            return f"the element at {_index(self._ends[0], self._shape)} only"
        names = _axis_names(layout, len(self._shape))
        indices = self._confined()
        run = self._range()
        if not indices or (run and self._bad < _FULL * self._box(indices)):
            return run
        if max(self._shape) == elements and not _is_plain(indices):
            return ""  # of one axis, elements always fill the indices they have
        axis_texts = [
            _axis_text(names[axis], axis, index, self._shape, c0) for axis, index in indices.items()
        ]
        return ("mostly " if self._has_strays(indices) else "") + ", ".join(axis_texts)

    def _confined(self) -> dict[int, Counts]:
        """The indices with bad elements by axis, for the axes where they are a pattern."""
        some = {}
        for axis, counts in self._axes():
            index = np.flatnonzero(counts > _STRAY * counts.max())
            bad_inside = int(counts[index].sum())
            if len(index) <= _MOST * len(counts) and bad_inside >= (1.0 - _STRAY) * self._bad:
                some[axis] = index
        box = self._box(some)
        if self._bad >= _DENSE * box:
            return some
        return {
            axis: index for axis, index in some.items() if self._bad >= _MANY * self._shape[axis]
        }

    def _box(self, indices: dict[int, Counts]) -> int:
        """How many elements are at the indices found."""
        sizes = enumerate(self._shape)
        return prod(len(indices[axis]) if axis in indices else size for axis, size in sizes)

    def _has_strays(self, indices: dict[int, Counts]) -> bool:
        return any(
            int(counts[indices[axis]].sum()) < self._bad
            for axis, counts in self._axes()
            if axis in indices
        )

    def _range(self) -> str:
        """The flat range they fill, which no axis shows."""
        first, last = self._ends
        length = last - first + 1
        if self._bad < _FULL * length or length > _DENSE * prod(self._shape):
            return ""
        return f"places {first}-{last} in memory order"


def _axis_names(layout: str | None, axes: int) -> Sequence[str]:
    if layout is not None and len(layout) == axes:
        return [_NAMES.get(letter, "indices") for letter in layout]
    return ("rows", "columns") if axes == 2 else ("indices",) * axes


def _axis_text(name: str, axis: int, index: Counts, shape: tuple[int, ...], c0: int) -> str:
    size = shape[axis]
    block = ""
    last_block = (size - 1) // c0 * c0
    if name == "channels" and last_block and index[0] == last_block and index[-1] == size - 1:
        block = f" (the last block of C0 = {c0})"
    if len(index) == 1:
        name = "index" if name == "indices" else name.removesuffix("s")
        return f"{name} {index[0]} of axis {axis}{block}"
    return f"{name} {_set(index, size)} of axis {axis}{block}"


def _set(index: Counts, size: int) -> str:
    steps = np.diff(index)
    step = int(steps[0])
    if (steps == step).all() and (step == 1 or len(index) > 2):
        ends = f"{index[0]}-{index[-1]}"
        return ends if step == 1 else f"{ends} in steps of {step}"
    if len(index) <= _LISTED:
        return ", ".join(map(str, index[:-1])) + f" and {index[-1]}"
    return f"{index[0]}-{index[-1]} ({len(index)} of {size})"


def _is_plain(indices: dict[int, Counts]) -> bool:
    """True if the indices are few, or in steps."""
    return all(
        len(index) <= _LISTED or len(np.unique(np.diff(index))) == 1 for index in indices.values()
    )


def _index(place: int, shape: tuple[int, ...]) -> list[int]:
    return [int(number) for number in np.unravel_index(place, shape)]
