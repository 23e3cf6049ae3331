"""Which ops every way through a graph must pass (Cooper, Harvey and Kennedy 2001).

Iterative, right for any graph, loops too; no way is ever listed.
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
    sources, targets = (np.asarray(ends, dtype=np.int32) for ends in edges)
    order = _reverse_postorder(*csr(size, sources, targets), root)
    place = np.full(size, -1, dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    # from here on nodes are known by their place in the order: a dominator has a lower one
    known = place[sources] >= 0
    start, before = (
        part.tolist() for part in csr(size, place[targets[known]], place[sources[known]])
    )
    above = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:  # once for a graph without loops, and once more to see that
        changed = False
        for here in range(1, len(order)):
            found = -1
            for other in before[start[here] : start[here + 1]]:
                if above[other] < 0:
                    continue
                while found >= 0 and found != other:
                    if found > other:
                        found = above[found]
                    else:
                        other = above[other]  # noqa: PLW2901 - both climb to where they meet
                found = other
            changed |= above[here] != found
            above[here] = found
    dominators = np.full(size, -1, dtype=np.int32)
    dominators[order] = np.asarray(order, dtype=np.int32)[above]
    return dominators


def _reverse_postorder(start: Int32, successors: Int32, root: int) -> list[int]:
    """The nodes *root* leads to, each after one that leads to it."""
    begin, following = start.tolist(), successors.tolist()
    done: list[int] = []
    seen = bytearray(len(begin) - 1)
    seen[root] = 1
    stack = [(root, begin[root])]
    while stack:
        node, edge = stack.pop()
        if edge == begin[node + 1]:
            done.append(node)
            continue
        stack.append((node, edge + 1))
        if not seen[following[edge]]:
            seen[following[edge]] = 1
            stack.append((following[edge], begin[following[edge]]))
    return done[::-1]
