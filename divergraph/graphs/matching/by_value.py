"""Golden tensors whose values a device tensor may have, in this or another order of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain
from operator import mul
from typing import TypeAlias

import numpy as np

from divergraph.graphs.matching.golden_reach import GoldenReach
from divergraph.graphs.matching.judging import Candidate
from divergraph.values.array_types import Array
from divergraph.values.closeness import FAR, best_reorder, distance, is_near
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.zero_points import is_8_bit, moved_by_128, same_bytes
from graphstore.model import TensorRef

_LOOKED_AT = 8
_NEAR = 0.02
"""Distance below which no other order of the values is tried."""
_MOST_PADDING = 16


class ValueLookup:
    """An index of all golden tensors by their values; reads the whole dump once."""

    def __init__(self, values: DumpedValues, reach: GoldenReach) -> None:
        self._values = values
        self._sketches = Sketches(values.of)
        for op in reach.graph.ops:
            for ref in op.makes:
                value = values.of(ref)
                if value is not None:
                    self._sketches.add(ref, value)

    def candidates(self, value: Array, *, blocked: bool) -> list[Candidate]:
        """The golden tensors nearest to *value*, equal ones as one family.

        *blocked*: its channels may lie in blocks.
        """
        if not is_telling(value):
            return []
        compared: list[tuple[Candidate, Array]] = []
        for ref in self._nearest(value, by_order=True):
            golden = self._values.of(ref)
            if golden is None or not lie_alike(value, golden):
                continue
            if not is_near(value, golden):
                continue
            gap = distance(value, golden)
            if gap > 0.0 and any(candidate.apart == 0.0 for candidate, _ in compared):
                break  # all that have the same values come first
            if gap < FAR:
                compared.append((Candidate(ref, gap), golden))
        if blocked or not any(candidate.apart < _NEAR for candidate, _ in compared):
            compared.extend(self._in_other_order(value, blocked=blocked))
        return list(_in_families(compared))

    def _nearest(self, value: Array, *, by_order: bool) -> Iterable[TensorRef]:
        """The golden tensors to compare with, including those with another zero point."""
        forms = (value, moved_by_128(value), same_bytes(value)) if is_8_bit(value) else (value,)
        nearest = (self._sketches.nearest(form, _LOOKED_AT, by_order=by_order) for form in forms)
        return dict.fromkeys(chain.from_iterable(nearest))

    def _in_other_order(self, value: Array, *, blocked: bool) -> Iterator[tuple[Candidate, Array]]:
        for stripped in self._stripped(value) if blocked else (value,):
            for ref in self._nearest(stripped, by_order=False):
                golden = self._values.of(ref)
                if golden is None or not (blocked or sorted(value.shape) == sorted(golden.shape)):
                    continue
                best = best_reorder(value, golden)
                if best is not None and best[1] < FAR:
                    yield Candidate(ref, best[1], best[0]), golden

    def _stripped(self, value: Array) -> Iterator[Array]:
        """*value*, and *value* without the zeros that may pad its channels, for each known size."""
        yield value
        flat = value.reshape(-1)
        zeros = np.flatnonzero(flat == 0)
        for size in sorted(self._sketches.sizes()):
            surplus = value.size - size
            if 0 < surplus <= zeros.size and value.size <= size * _MOST_PADDING:
                yield np.delete(flat, zeros[:surplus])


def _in_families(candidates: list[tuple[Candidate, Array]]) -> Iterator[Candidate]:
    families: list[Array] = []
    for candidate, golden in candidates:
        yield Candidate(
            candidate.golden, candidate.apart, candidate.reorder, family_of(families, golden)
        )


def family_of(families: list[Array], value: Array) -> int:
    """The index in *families* of the values equal to *value*, which is added if it is new."""
    for place, other in enumerate(families):
        if np.array_equal(other.reshape(-1), value.reshape(-1), equal_nan=True):
            return place
    families.append(value)
    return len(families) - 1


def squeezed(value: Array) -> tuple[int, ...]:
    """The shape without its sizes of 1."""
    return tuple(size for size in value.shape if size != 1)


def lie_alike(one: Array, other: Array) -> bool:
    """Whether the shapes differ at most by sizes of 1 and by neighbouring axes that are one on one
    side, as a product of matrices has them."""
    ends, others = _ends(one), _ends(other)
    return one.size == other.size and (ends <= others or others <= ends)


def _ends(value: Array) -> set[int]:
    """How many elements the axes hold from the first one to each."""
    return set(accumulate(value.shape, mul, initial=1))


_POINTS = 48
_SMALLEST = 4
"""Tensors with fewer elements look alike by chance."""
_ANYWAY = 0.5
"""Relative distance of samples up to which a tensor is a candidate, however near the nearest one
is."""
_MUCH_FARTHER = 4.0


Read: TypeAlias = Callable[[TensorRef], "Array | None"]


@dataclass
class Sketches:
    """An index of golden tensors by samples of their values, or of their sorted values. ``read``
    gives the values of one again: sorting is put off until it is needed."""

    read: Read
    _by_size: dict[int, list[TensorRef]] = field(default_factory=dict)
    _sampled: dict[int, list[Array]] = field(default_factory=dict)
    _ranked: dict[int, Array] = field(default_factory=dict)

    def add(self, ref: TensorRef, value: Array) -> None:
        """Add a tensor, unless its values cannot identify it."""
        if is_telling(value):
            self._by_size.setdefault(value.size, []).append(ref)
            self._sampled.setdefault(value.size, []).append(_sample(value))

    def nearest(self, value: Array, count: int, *, by_order: bool) -> list[TensorRef]:
        """The *count* tensors of this size whose samples are nearest, nearest first.

        Not *by_order*: samples of the sorted values. Those much farther away than the
        nearest are left out.
        """
        refs = self._by_size.get(value.size, [])
        if not refs or not is_telling(value):
            return []
        mine = _sample(value) if by_order else _ranks(value)
        theirs = np.stack(self._sampled[value.size]) if by_order else self._all_ranks(value.size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gaps = np.linalg.norm(theirs - mine, axis=1) / np.linalg.norm(theirs, axis=1)
        gaps = np.nan_to_num(gaps, nan=0.0)  # zeros on both sides
        best = np.argsort(gaps, kind="stable")[:count]
        largest_gap = max(_ANYWAY, _MUCH_FARTHER * float(gaps[best[0]]))
        return [refs[place] for place in best.tolist() if gaps[place] <= largest_gap]

    def _all_ranks(self, size: int) -> Array:
        ranked = self._ranked.get(size)
        if ranked is None:
            values = (self.read(ref) for ref in self._by_size[size])
            ranks = [
                np.full(_POINTS, np.inf) if value is None else _ranks(value) for value in values
            ]
            ranked = self._ranked[size] = np.stack(ranks)
        return ranked

    def sizes(self) -> Iterable[int]:
        """The element counts there are."""
        return self._by_size.keys()


def is_telling(value: Array) -> bool:
    """Whether a tensor's values can identify it."""
    if value.size < _SMALLEST or value.dtype.kind not in "fiu":
        return False
    flat = value.reshape(-1)
    return bool(np.any(flat != flat[0]))


def _sample(value: Array) -> Array:
    flat = value.reshape(-1)
    # strides coprime to image sizes, so that not all samples fall on padding
    places = (np.arange(_POINTS, dtype=np.int64) * 7919 * 31) % flat.size
    return np.nan_to_num(flat[places].astype(np.float64))


def _ranks(value: Array) -> Array:
    flat = np.nan_to_num(value.reshape(-1))
    ranks = np.linspace(0, flat.size - 1, _POINTS).astype(np.int64)
    return np.sort(flat)[ranks].astype(np.float64)
