"""Golden tensors a device tensor's values may be, as they lie or in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from divergraph.graphs.matching.golden_reach import GoldenReach
from divergraph.graphs.matching.judging import Candidate
from divergraph.graphs.matching.sketches import Sketches, is_telling
from divergraph.values.closeness import (
    FAR,
    Array,
    best_reorder,
    distance,
    is_near,
)
from divergraph.values.dumped_values import DumpedValues
from divergraph.values.zero_points import is_8_bit, moved_by_128, same_bytes
from graphstore.model import TensorRef

_LOOKED_AT = 8
_NEAR = 0.02
"""Below this distance nobody looks for another order of the values."""
_MOST_PADDING = 16


class ValueLookup:
    """All golden tensors by their values; reads the whole dump once."""

    def __init__(self, values: DumpedValues, reach: GoldenReach) -> None:
        self._values = values
        self._sketches = Sketches(values.of)
        for op in reach.graph.ops:
            for port in range(len(op.outputs)):
                value = values.of(TensorRef(op.id, port))
                if value is not None:
                    self._sketches.add(TensorRef(op.id, port), value)

    def candidates(self, value: Array, *, blocked: bool) -> list[Candidate]:
        """The golden tensors nearest to *value*, equal ones as one family.

        *blocked*: its channels may lie in blocks.
        """
        if not is_telling(value):
            return []
        found: list[tuple[Candidate, Array]] = []
        for ref in self._nearest(value, by_order=True):
            golden = self._values.of(ref)
            if golden is None or squeezed(value) != squeezed(golden):
                continue
            if not is_near(value, golden):
                continue
            apart = distance(value, golden)
            if apart > 0.0 and any(each.apart == 0.0 for each, _ in found):
                break  # all that have the same values come first
            if apart < FAR:
                found.append((Candidate(ref, apart), golden))
        if blocked or not any(each.apart < _NEAR for each, _ in found):
            found.extend(self._in_other_order(value, blocked=blocked))
        return list(_in_families(found))

    def _nearest(self, value: Array, *, by_order: bool) -> Iterable[TensorRef]:
        """The golden tensors to look at, also of those with another zero point."""
        forms = (value, moved_by_128(value), same_bytes(value)) if is_8_bit(value) else (value,)
        found = (self._sketches.nearest(each, _LOOKED_AT, by_order=by_order) for each in forms)
        return dict.fromkeys(chain.from_iterable(found))

    def _in_other_order(self, value: Array, *, blocked: bool) -> Iterator[tuple[Candidate, Array]]:
        for stripped in self._stripped(value) if blocked else (value,):
            for ref in self._nearest(stripped, by_order=False):
                golden = self._values.of(ref)
                if golden is None or not (blocked or _is_permuted(value, golden)):
                    continue
                best = best_reorder(value, golden)
                if best is not None and best[1] < FAR:
                    yield Candidate(ref, best[1], best[0]), golden

    def _stripped(self, value: Array) -> Iterator[Array]:
        """*value*, and without the zeros that may fill its channels up, for each known size."""
        yield value
        flat = value.reshape(-1)
        zeros = np.flatnonzero(flat == 0)
        for size in sorted(self._sketches.sizes()):
            surplus = value.size - size
            if 0 < surplus <= zeros.size and value.size <= size * _MOST_PADDING:
                yield np.delete(flat, zeros[:surplus])


def _in_families(found: list[tuple[Candidate, Array]]) -> Iterator[Candidate]:
    families: list[Array] = []
    for candidate, golden in found:
        yield Candidate(
            candidate.golden, candidate.apart, candidate.reorder, family_of(families, golden)
        )


def family_of(families: list[Array], value: Array) -> int:
    """The place of the values equal to *value* in *families*; added if there are none."""
    for place, other in enumerate(families):
        if np.array_equal(other.reshape(-1), value.reshape(-1), equal_nan=True):
            return place
    families.append(value)
    return len(families) - 1


def squeezed(value: Array) -> tuple[int, ...]:
    """The shape without its sizes of 1."""
    return tuple(size for size in value.shape if size != 1)


def _is_permuted(device: Array, golden: Array) -> bool:
    return 1 < device.ndim == golden.ndim and sorted(device.shape) == sorted(golden.shape)
