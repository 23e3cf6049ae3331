"""Which ops every way through a graph must pass (Lengauer and Tarjan 1979, simple form).

Iterative, O(edges log ops), right for any graph, loops too; no way is ever listed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphstore.traverse.arrays import Int32, csr


def immediate_dominators(
    size: int, edges: tuple[Sequence[int] | Int32, Sequence[int] | Int32], root: int
) -> Int32:
    """For each node 0..size-1 the last one every way from *root* to it passes before it.

    *edges* are (sources, targets). The root has itself; -1 where *root* does not lead.
    """
    sources = np.asarray(edges[0], dtype=np.int32)
    targets = np.asarray(edges[1], dtype=np.int32)
    follow = _as_lists(*csr(size, sources, targets))
    order, parent, place = _depth_first(size, follow, root)
    before = _as_lists(*csr(size, targets, sources))
    found = np.full(size, -1, dtype=np.int32)
    if order:
        dominators = _Forest(order, parent, place).dominators(before)
        found[order] = [order[number] for number in dominators]
    return found


def common_dominators(
    size: int, edges: tuple[Sequence[int] | Int32, Sequence[int] | Int32], root: int, end: int
) -> list[int]:
    """The nodes every way from *root* to *end* passes, both included, in the order passed.

    Empty if no way leads there.
    """
    last = immediate_dominators(size, edges, root).tolist()
    if last[end] < 0:
        return []
    chain = [end]
    while chain[-1] != root:
        chain.append(last[chain[-1]])
    return chain[::-1]


_Lists = tuple[list[int], list[int]]


def _as_lists(start: Int32, others: Int32) -> _Lists:
    return start.tolist(), others.tolist()


def _depth_first(size: int, follow: _Lists, root: int) -> tuple[list[int], list[int], list[int]]:
    """(nodes in depth-first order, parent of each by place, place of each node or -1)."""
    start, successors = follow
    place = [-1] * size
    order: list[int] = []
    parent: list[int] = []
    stack = [(root, 0)]
    while stack:
        node, above = stack.pop()
        if place[node] >= 0:
            continue
        place[node] = len(order)
        order.append(node)
        parent.append(above)
        here = place[node]
        stack += [
            (other, here) for other in successors[start[node] : start[node + 1]] if place[other] < 0
        ]
    return order, parent, place


class _Forest:
    """The depth-first tree, linked place by place from the last one up; all by place."""

    def __init__(self, order: list[int], parent: list[int], place: list[int]) -> None:
        size = len(order)
        self._order, self._parent, self._place = order, parent, place
        self._semi = list(range(size))
        self._label = list(range(size))
        self._above = [-1] * size

    def dominators(self, before: _Lists) -> list[int]:
        """The immediate dominator of each place."""
        start, predecessors = before
        semi, parent, place = self._semi, self._parent, self._place
        size = len(self._order)
        waiting: list[list[int]] = [[] for _ in range(size)]
        found = [0] * size
        for here in range(size - 1, 0, -1):
            node = self._order[here]
            for source in predecessors[start[node] : start[node + 1]]:
                if place[source] >= 0:
                    semi[here] = min(semi[here], semi[self._lowest(place[source])])
            waiting[semi[here]].append(here)
            above = parent[here]
            self._above[here] = above
            for other in waiting[above]:
                lowest = self._lowest(other)
                found[other] = lowest if semi[lowest] < semi[other] else above
            waiting[above] = []
        for here in range(1, size):
            if found[here] != semi[here]:
                found[here] = found[found[here]]
        return found

    def _lowest(self, here: int) -> int:
        """The place with the lowest semi-dominator on the linked way up; shortens the way."""
        above, label, semi = self._above, self._label, self._semi
        if above[here] < 0:
            return label[here]
        way = []
        node = here
        while above[above[node]] >= 0:
            way.append(node)
            node = above[node]
        for below in reversed(way):
            upper = above[below]
            if semi[label[upper]] < semi[label[below]]:
                label[below] = label[upper]
            above[below] = above[upper]
        return label[here]
