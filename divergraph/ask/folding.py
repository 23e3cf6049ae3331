"""A graph folded by name spaces: groups of few children each, which a picture opens one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from graphstore.columns.coded import Int
from graphstore.columns.op_columns import OpColumns

MOST = 250
"""Children of a group; more are folded into blocks of ops that follow each other."""
_DEEPEST = 24
"""Parts of a name that are name spaces; what lies deeper stays in the last one."""


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


_FOLDED: WeakKeyDictionary[OpColumns, FoldedOps] = WeakKeyDictionary()


def folded(ops: OpColumns) -> FoldedOps:
    """*ops* by the parts of their names; kept as long as they are."""
    known = _FOLDED.get(ops)
    if known is None:
        known = _FOLDED[ops] = _Folding(ops.ids).folded()
    return known


@dataclass(slots=True)
class _Entry:
    """An op, or a name space with what is directly in it."""

    first: int
    name: str
    entries: list[_Entry] = field(default_factory=list)
    is_op: bool = False


class _Folding:
    """Numbers groups in the order in which they are met from the top."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = ids
        self._groups: list[OpGroup | None] = []
        self._order: list[int] = []
        self._holder = np.zeros(len(ids), dtype=np.int32)

    def folded(self) -> FoldedOps:
        self._add("", _spaces(self._ids).entries, 0)
        order = np.asarray(self._order, dtype=np.int32)
        place = np.empty_like(order)
        place[order] = np.arange(len(order), dtype=np.int32)
        groups = [group for group in self._groups if group is not None]
        return FoldedOps(groups, order, place, self._holder)

    def _add(self, name: str, entries: list[_Entry], parent: int) -> int:
        number, start = len(self._groups), len(self._order)
        self._groups.append(None)
        children = []
        for entry in _in_blocks(entries):
            if entry.is_op:
                self._order.append(entry.first)
                self._holder[entry.first] = number
                children.append(~entry.first)
            else:
                children.append(self._add(entry.name, entry.entries, number))
        end = len(self._order)
        self._groups[number] = OpGroup(name, parent, start, end, tuple(children))
        return number


def _spaces(ids: Sequence[str]) -> _Entry:
    """The name spaces as a tree, each where its first op is. One that holds a single op or name
    space says nothing: what is in it stands in its place."""
    root = _Entry(0, "")
    known = {"": root}

    def space(name: str, first: int) -> _Entry:
        there = known.get(name)
        if there is None:
            there = known[name] = _Entry(first, name)
            space(name.rpartition("/")[0], first).entries.append(there)
        return there

    for number, op in enumerate(ids):
        name = op.rpartition("/")[0]
        if name.count("/") >= _DEEPEST:
            name = "/".join(name.split("/", _DEEPEST)[:_DEEPEST])
        space(name, number).entries.append(_Entry(number, op, is_op=True))
    # Inner spaces come after the one around them, but those met from within.
    for there in sorted(known.values(), key=lambda entry: -entry.name.count("/")):
        there.entries = [_only(entry) for entry in there.entries]
    while len(root.entries) == 1 and not root.entries[0].is_op:
        root.entries = root.entries[0].entries
    return root


def _only(entry: _Entry) -> _Entry:
    return entry.entries[0] if len(entry.entries) == 1 and not entry.is_op else entry


def _in_blocks(entries: list[_Entry]) -> list[_Entry]:
    """*entries*, or blocks of them, about as many as each holds."""
    if len(entries) <= MOST:
        return entries
    size = math.ceil(len(entries) / min(MOST // 2, math.isqrt(len(entries))))
    blocks = [entries[at : at + size] for at in range(0, len(entries), size)]
    return [_Entry(b[0].first, f"{b[0].name} … {b[-1].name}", b) for b in blocks]
