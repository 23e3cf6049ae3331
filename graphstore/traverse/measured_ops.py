"""Which device ops of a run were measured and which are over a limit, and pairs of measured ops
with only unmeasured ones between them.

An op is measured if at least one of its *outputs* was compared, and over if one of
these is. Inputs do not count: they are outputs of other ops.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from graphstore.model import Comparison, TensorIO
from graphstore.traverse.arrays import Bool, GraphArrays, Int32

_SMALL = 64
"""Sets of measured ops up to this size are kept for every unmeasured op before them."""
_STEPS_A_PAIR = 32
"""The steps allowed for each pair of the limit."""

_NONE: frozenset[int] = frozenset()


def measured_ops(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    """True for each op (by number) with a compared output."""
    return _mask(arrays, (item for item in comparisons if item.compared))


def over_ops(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    """True for each op (by number) with a compared output over a limit."""
    return _mask(arrays, (item for item in comparisons if item.compared and item.over))


def _mask(arrays: GraphArrays, comparisons: Iterable[Comparison]) -> Bool:
    mask = np.zeros(len(arrays.ids), dtype=np.bool_)
    for item in comparisons:
        if item.io is TensorIO.OUTPUT:
            mask[arrays.number[item.op]] = True
    return mask


class MeasuredOpPairs:
    """Finds the pairs of :func:`graphstore.traverse.algorithms.few_next_measured`.

    One sweep against the edges finds the measured ops after each unmeasured op, as long as
    they are few; equal sets are one object. So regions that split and join again cost one
    step an edge. From where they are many, an unmeasured op that a measured one feeds is
    walked from once; that takes about as long as the pairs it adds.
    """

    def __init__(self, arrays: GraphArrays, measured: Bool, limit: int) -> None:
        self._start: list[int] = arrays.successor_start.tolist()
        self._successors: list[int] = arrays.successor_ops.tolist()
        self._measured: list[bool] = measured.tolist()
        self._sources: list[int] = np.flatnonzero(measured).tolist()
        self._limit = limit
        edges = len(self._successors) + len(self._measured)
        self._steps = _STEPS_A_PAIR * (limit + edges)
        self._few = self._few_after()
        self._many: dict[int, frozenset[int]] = {}

    def pairs(self) -> tuple[Int32, Int32] | None:
        """(sources, targets); None if they are too many."""
        sources, targets = array("i"), array("i")
        for number in self._sources:
            reached = self._union(self._next(number))
            if reached is None:
                return None
            sources.extend([number] * len(reached))
            targets.extend(sorted(reached))
            if len(sources) > self._limit:
                return None
        return np.asarray(sources, dtype=np.int32), np.asarray(targets, dtype=np.int32)

    def _next(self, number: int) -> Sequence[int]:
        return self._successors[self._start[number] : self._start[number + 1]]

    def _few_after(self) -> list[frozenset[int] | None]:
        """For each unmeasured op the measured ones after it; None if many or not known.

        What is in a loop, or before one, is not known.
        """
        few: list[frozenset[int] | None] = [None] * len(self._measured)
        alone: dict[int, frozenset[int]] = {}
        for number in range(len(few) - 1, -1, -1):
            if self._measured[number]:
                continue
            after: frozenset[int] | None = _NONE
            for target in self._next(number):
                if self._measured[target]:
                    more: frozenset[int] | None = alone.get(target)
                    if more is None:
                        more = alone[target] = frozenset((target,))
                else:
                    more = few[target]  # one that comes later has no set yet: a loop
                if more is None or after is None:
                    after = None
                    break
                if after is not more and not more <= after:
                    after = more if after <= more else after | more
                    if len(after) > _SMALL:
                        after = None
                        break
            few[number] = after
        return few

    def _union(self, entries: Iterable[int]) -> set[int] | None:
        """The measured ops at or after *entries*; None if that took too long."""
        union: set[int] = set()
        for entry in entries:
            if self._measured[entry]:
                union.add(entry)
                continue
            after = self._few[entry]
            if after is None:
                after = self._walk(entry)
            if after is None or not self._spend(1 + len(after)):
                return None
            union |= after
        return union

    def _walk(self, entry: int) -> frozenset[int] | None:
        """The measured ops after an unmeasured one; kept."""
        pairs = self._many.get(entry)
        if pairs is not None:
            return pairs
        pairs_reached: set[int] = set()
        seen = {entry}
        stack = [entry]
        while stack:
            targets = self._next(stack.pop())
            if not self._spend(len(targets)):
                return None
            for target in targets:
                if target in seen:
                    continue
                seen.add(target)
                if self._measured[target]:
                    pairs_reached.add(target)
                    continue
                pairs = self._few[target]
                if pairs is None:
                    pairs = self._many.get(target)
                if pairs is None:
                    stack.append(target)
                elif not self._spend(len(pairs)):
                    return None
                else:
                    pairs_reached |= pairs
        self._many[entry] = frozenset(pairs_reached)
        return self._many[entry]

    def _spend(self, steps: int) -> bool:
        """False once all allowed steps are used up."""
        self._steps -= steps
        return self._steps >= 0
