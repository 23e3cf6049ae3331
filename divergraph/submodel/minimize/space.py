"""The convex sets of units that can be cut out of a graph, found fast on graphs of any size.

A unit is an op, or ops that only go together: the originals of one fused op, a loop, an op with its
bodies. Units are numbered in topological order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from graphstore.traverse.arrays import GraphArrays, Int32, csr
from graphstore.traverse.components import condense

Units = frozenset[int]
"""A set of units; what the search hands to oracles is always convex."""


class Space:
    """The units of a graph and how they feed each other.

    *together* are sets of op ids that are never cut apart, *left_out* ops that go along by
    themselves (constants) or cannot be cut (what is fed from outside).
    """

    def __init__(
        self,
        arrays: GraphArrays,
        together: Iterable[Iterable[str]] = (),
        left_out: Iterable[str] = (),
    ) -> None:
        number = arrays.number
        size = len(arrays.ids)
        sources = np.repeat(np.arange(size, dtype=np.int32), np.diff(arrays.successor_start))
        targets = arrays.successor_ops
        bonds = [
            pair
            for group in together
            for pair in _ring([number[op] for op in group if op in number])
        ]
        if bonds or bool((sources >= targets).any()):
            extra = np.asarray(bonds, np.int32).reshape(-1, 2)
            of, count, edges = condense(
                size, np.concatenate((sources, extra[:, 0])), np.concatenate((targets, extra[:, 1]))
            )
        else:
            of, count, edges = np.arange(size, dtype=np.int32), size, (sources, targets)
        self._ids = arrays.ids
        self._number = number
        self._unit_of = of.tolist()
        self._after = _lists(*csr(count, *edges))
        self._before = _lists(*csr(count, edges[1], edges[0]))
        out = {self._unit_of[number[op]] for op in left_out if op in number}
        order = np.argsort(of, kind="stable")
        self._members = _lists(
            np.searchsorted(of[order], np.arange(count + 1)).astype(np.int32),
            order.astype(np.int32),
        )
        units = {unit for unit in out if len(self._members[unit]) > 1}
        self._all: Units = frozenset(range(count)) - (out - units)

    @property
    def everything(self) -> Units:
        """All units that can be chosen."""
        return self._all

    def limited(self, ops: Iterable[str]) -> None:
        """Choose among the units of *ops* only, a convex set."""
        self._all &= self.units(ops)

    def units(self, ops: Iterable[str]) -> Units:
        """The units of op ids, as far as they can be chosen."""
        units = {self._unit_of[self._number[op]] for op in ops if op in self._number}
        return frozenset(units & self._all)

    def ops(self, units: Iterable[int]) -> tuple[str, ...]:
        """The op ids of units, in topological order."""
        numbers = sorted(op for unit in units for op in self._members[unit])
        return tuple(self._ids[op] for op in numbers)

    def size(self, units: Iterable[int]) -> int:
        """How many ops units are."""
        return sum(len(self._members[unit]) for unit in units)

    def hull(self, units: Iterable[int]) -> Units:
        """The smallest convex set that holds *units*."""
        wanted = set(units)
        if len(wanted) < 2:
            return frozenset(wanted)
        lowest, highest = min(wanted), max(wanted)
        below = self._reached(wanted, self._after, lowest, highest)
        return frozenset(self._reached(wanted, self._before, lowest, highest) & below)

    def edges(self, part: Units) -> list[int]:
        """The units of a convex set that can be taken away alone: its firsts and lasts."""
        return sorted(
            unit
            for unit in part
            if not any(other in part for other in self._before[unit])
            or not any(other in part for other in self._after[unit])
        )

    def above(self, core: Iterable[int]) -> list[list[int]]:
        """The ancestors of *core* by the length of the longest path to it, nearest first.

        The core with the first n of these is convex for each n, if the core is one unit.
        """
        return self._levels(core, self._before, -1)

    def below(self, core: Iterable[int]) -> list[list[int]]:
        """The descendants of *core*, alike."""
        return self._levels(core, self._after, 1)

    def around(self, core: Iterable[int], within: Units | None = None) -> list[list[int]]:
        """All units connected with *core* by the fewest edges in any direction."""
        allowed = self._all if within is None else within
        seen = set(core)
        level, shells = sorted(seen), []
        while level:
            following = {
                other
                for unit in level
                for side in (self._before, self._after)
                for other in side[unit]
                if other in allowed and other not in seen
            }
            seen |= following
            level = sorted(following)
            if level:
                shells.append(level)
        return shells

    def layers(self, part: Units) -> list[list[int]]:
        """A convex set by the length of the longest path from its firsts."""
        depth: dict[int, int] = {}
        layers: list[list[int]] = []
        for unit in sorted(part):
            depth[unit] = 1 + max(
                (depth.get(other, -1) for other in self._before[unit]), default=-1
            )
            if depth[unit] == len(layers):
                layers.append([])
            layers[depth[unit]].append(unit)
        return layers

    def _levels(
        self, core: Iterable[int], side: Sequence[Sequence[int]], turn: int
    ) -> list[list[int]]:
        starts = set(core)
        reached = self._reached(starts, side, 0, len(side)) & (self._all | starts)
        distance = dict.fromkeys(starts, 0)
        for unit in sorted(reached, reverse=turn < 0):
            here = distance.get(unit)
            for other in side[unit] if here is not None else ():
                if other in reached and other not in starts:
                    distance[other] = max(distance.get(other, 0), (here or 0) + 1)
        levels: list[list[int]] = [[] for _ in range(max(distance.values(), default=0))]
        for unit, far in distance.items():
            if far:
                levels[far - 1].append(unit)
        return [sorted(level) for level in levels if level]

    def _reached(
        self, starts: set[int], side: Sequence[Sequence[int]], lowest: int, highest: int
    ) -> set[int]:
        seen, waiting = set(starts), list(starts)
        while waiting:
            for other in side[waiting.pop()]:
                if lowest <= other <= highest and other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen


def _ring(members: Sequence[int]) -> list[tuple[int, int]]:
    """Edges that make one loop of *members*."""
    if len(members) < 2:
        return []
    return list(zip(members, [*members[1:], members[0]], strict=True))


def _lists(start: Int32, values: Int32) -> list[list[int]]:
    flat, ends = values.tolist(), start.tolist()
    return [flat[ends[n] : ends[n + 1]] for n in range(len(ends) - 1)]
