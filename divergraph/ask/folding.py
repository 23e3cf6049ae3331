"""A graph folded by name spaces: groups of few children each, which a picture opens one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from graphstore.columns.coded import Int
from graphstore.gc_paused import gc_paused

MOST = 250
"""Children of a group; more are folded into blocks of ops that follow each other."""
_DEEPEST = 24
"""Parts of a name that are name spaces; what lies deeper stays in the last one."""
_SLICE = 8192


@dataclass(frozen=True, slots=True)
class OpGroup:
    """A name space, or a block of one. Its ops are those in the places from ``start`` up to
    ``end`` of :attr:`FoldedOps.order`; ``children`` are numbers of groups, or ``~n`` for op n."""

    name: str
    parent: int
    start: int
    end: int
    children: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FoldedOps:
    """The ops of a graph in ``groups``, of which number 0 holds them all.

    ``order`` lists the numbers of the ops group by group, ``place`` is its inverse, and ``holder``
    the innermost group of each op.
    """

    groups: Sequence[OpGroup]
    order: Int
    place: Int
    holder: Int

    def trail(self, group: int) -> list[int]:
        """The groups from the whole graph down to *group*."""
        trail = [group]
        while trail[-1]:
            trail.append(self.groups[trail[-1]].parent)
        return trail[::-1]


def folded(ids: Sequence[str]) -> FoldedOps:
    """The ops of these *ids*, given in topo order, by the parts of their names."""
    with gc_paused():
        return _Folding(ids).folded()


class _Spaces:
    """The name spaces of ops: number 0 is the whole graph, each comes behind the one around it.

    ``names``, ``around`` and ``firsts`` (its first op) have an entry a space, ``of_op`` one an op.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self.names, self.around, self.firsts = [""], [0], [0]
        number_of = {"": 0}
        of_op: list[int] = []

        def space(name: str, first: int) -> int:
            number = number_of.get(name)
            if number is None and name.count("/") >= _DEEPEST:
                shallow = "/".join(name.split("/", _DEEPEST)[:_DEEPEST])
                number = number_of[name] = space(shallow, first)
            if number is None:
                around = space(name.rpartition("/")[0], first)
                number = number_of[name] = len(self.names)
                self.names.append(name)
                self.around.append(around)
                self.firsts.append(first)
            return number

        for start in range(0, len(ids), _SLICE):  # as a whole, texts would be kept
            ops = enumerate(ids[start : start + _SLICE], start)
            of_op.extend([space(op.rpartition("/")[0], number) for number, op in ops])
        self.of_op = np.asarray(of_op, dtype=np.int32)

    def entries(self) -> list[list[int]]:
        """What is directly in each space, by its first op: ``~n`` for op n, numbers of spaces. One
        that holds a single op or space says nothing: what is in it stands in its place."""
        counts = np.bincount(self.of_op, minlength=len(self.names))
        ops, at = (~np.argsort(self.of_op, kind="stable")).tolist(), [0, *np.cumsum(counts)]
        entries = [ops[start:end] for start, end in pairwise(at)]
        mixed = set()
        for space in range(len(self.names) - 1, 0, -1):
            own, around = entries[space], self.around[space]
            entries[around].append(own[0] if len(own) == 1 else space)
            mixed.add(around)
        for space in mixed:
            entries[space].sort(key=self._first)
        while len(entries[0]) == 1 and entries[0][0] > 0:
            entries[0] = entries[entries[0][0]]
        return entries

    def _first(self, entry: int) -> int:
        return ~entry if entry < 0 else self.firsts[entry]


class _Folding:
    """Numbers groups in the order in which they are met from the top."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids, self._spaces = ids, _Spaces(ids)
        self._entries = self._spaces.entries()
        self._groups: list[OpGroup | None] = []
        self._order: list[int] = []
        self._holders: list[int] = []

    def folded(self) -> FoldedOps:
        self._add("", self._entries[0], 0)
        order = np.asarray(self._order, dtype=np.int32)
        place, holder = np.empty_like(order), np.empty_like(order)
        place[order] = np.arange(len(order), dtype=np.int32)
        holder[order] = self._holders
        groups = [group for group in self._groups if group is not None]
        return FoldedOps(groups, order, place, holder)

    def _add(self, name: str, entries: Sequence[int], parent: int) -> int:
        number, start = len(self._groups), len(self._order)
        self._groups.append(None)
        children: Sequence[int] = entries
        if len(entries) > MOST:
            children = [self._add(*block, number) for block in self._blocks(entries)]
        elif max(entries, default=-1) < 0:
            self._order.extend([~entry for entry in entries])
            self._holders.extend([number] * len(entries))
        else:
            children = [self._child(entry, number) for entry in entries]
        end = len(self._order)
        self._groups[number] = OpGroup(name, parent, start, end, tuple(children))
        return number

    def _child(self, entry: int, parent: int) -> int:
        if entry >= 0:
            return self._add(self._spaces.names[entry], self._entries[entry], parent)
        self._order.append(~entry)
        self._holders.append(parent)
        return entry

    def _blocks(self, entries: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
        """About as many blocks of *entries* as each holds, with what they are called."""
        size = math.ceil(len(entries) / min(MOST // 2, math.isqrt(len(entries))))
        for at in range(0, len(entries), size):
            block = entries[at : at + size]
            yield f"{self._name(block[0])} … {self._name(block[-1])}", block

    def _name(self, entry: int) -> str:
        return self._ids[~entry] if entry < 0 else self._spaces.names[entry]
