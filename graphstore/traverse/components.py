"""Strongly connected parts of a graph (Tarjan, without recursion)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphstore.traverse.arrays import Int32, csr


def components(start: Sequence[int], successors: Sequence[int]) -> list[int]:
    """The part of each node of a CSR graph; parts are numbered against the edges.

    An edge between two parts goes from the higher to the lower number.
    """
    size = len(start) - 1
    index = [-1] * size
    low = [0] * size
    part = [-1] * size
    open_nodes: list[int] = []
    parts = counter = 0
    for root in range(size):
        if index[root] >= 0:
            continue
        index[root] = low[root] = counter
        counter += 1
        open_nodes.append(root)
        work = [(root, start[root])]
        while work:
            node, edge = work.pop()
            if edge < start[node + 1]:
                work.append((node, edge + 1))
                target = successors[edge]
                if index[target] < 0:
                    index[target] = low[target] = counter
                    counter += 1
                    open_nodes.append(target)
                    work.append((target, start[target]))
                elif part[target] < 0:
                    low[node] = min(low[node], index[target])
                continue
            if low[node] == index[node]:
                while True:
                    member = open_nodes.pop()
                    part[member] = parts
                    if member == node:
                        break
                parts += 1
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return part


def condense(size: int, sources: Int32, targets: Int32) -> tuple[Int32, int, tuple[Int32, Int32]]:
    """(part of each node, number of parts, edges between parts, low to high number)."""
    start, successors = csr(size, sources, targets)
    part = np.asarray(components(start.tolist(), successors.tolist()), dtype=np.int32)
    count = int(part.max()) + 1 if size else 0
    group = (count - 1 - part).astype(np.int32)
    above, below = group[sources], group[targets]
    crosses = above != below
    return group, count, (above[crosses], below[crosses])
