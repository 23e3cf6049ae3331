"""The path on which most of an error is carried, to every op at once; paths are never listed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from graphstore.traverse.arrays import Bool, GraphArrays, Int32, csr


def widest_paths_to(
    arrays: GraphArrays,
    starts: Iterable[int],
    inside: Bool,
    error: NDArray[np.float64],
) -> Int32:
    """For each op the op before it on its widest path from one of *starts*.

    A path is as wide as the smallest *error* of the measured ops on it (NaN: not measured,
    passed freely); of equally wide ones the op with the larger error just before it is
    taken, then the one with fewer ops. Only ops of the mask *inside* are passed. Starts have
    themselves, ops that are not reached -1. O(edges log ops), with loops too.
    """
    start, successors = arrays.successor_start.tolist(), arrays.successor_ops.tolist()
    allowed, unknown = inside.tolist(), np.isnan(error).tolist()
    errors = np.where(np.isnan(error), math.inf, error).tolist()  # what is not known, all passes
    size = len(arrays.ids)
    width = [-1.0] * size
    carried, hops = [0.0] * size, [0] * size
    before = [-1] * size
    done = bytearray(size)
    heap: list[tuple[float, int]] = []
    for root in dict.fromkeys(starts):
        before[root] = root
        width[root] = carried[root] = errors[root]
        heapq.heappush(heap, (-width[root], root))
    roots = {root for _, root in heap}
    while heap:
        wide, node = heapq.heappop(heap)
        if done[node] or -wide < width[node]:
            continue
        done[node] = 1
        wide_here = width[node]
        for other in successors[start[node] : start[node + 1]]:
            if done[other] or other in roots or not allowed[other]:
                continue
            own = errors[other]
            through = own if own < wide_here else wide_here
            better = (through, carried[node], -hops[node] - 1)
            last = before[other]
            if last >= 0 and better <= (width[other], carried[last], -hops[other]):
                continue
            if last < 0 or through > width[other]:
                heapq.heappush(heap, (-through, other))
            width[other], before[other], hops[other] = through, node, hops[node] + 1
            carried[other] = carried[node] if unknown[other] else own
    return np.asarray(before, dtype=np.int32)


def path_to(before: Int32, end: int) -> list[int]:
    """The ops of the path to *end*, from its start on; empty if none leads there."""
    if before[end] < 0:
        return []
    path = [end]
    while before[path[-1]] != path[-1]:
        path.append(int(before[path[-1]]))
    return path[::-1]


# Iterative, right for any graph, loops too; no path is ever listed.


def immediate_dominators(
    size: int, edges: tuple[Sequence[int] | Int32, Sequence[int] | Int32], root: int
) -> Int32:
    """For each node 0..size-1 the last one every path from *root* to it passes before it.

    *edges* are (sources, targets). The root has itself; -1 where *root* does not lead.
    """
    sources, targets = (np.asarray(ends, dtype=np.int32) for ends in edges)
    forward = bool(np.all(sources < targets))
    order = _nodes_after(size, targets, root) if forward else _reached(size, sources, targets, root)
    place = np.full(size, -1, dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    # from here on nodes are known by their place in the order: a dominator has a lower one
    is_placed = place[sources] >= 0
    start, before = (
        part.tolist() for part in csr(size, place[targets[is_placed]], place[sources[is_placed]])
    )
    above = [0] + [-1] * (len(order) - 1)
    changed = True
    while changed:  # once for a graph without loops, and else once more to see that
        changed = False
        for here in range(1, len(order)):
            dominator = -1
            for other in before[start[here] : start[here + 1]]:
                if above[other] < 0:
                    continue
                while dominator >= 0 and dominator != other:
                    if dominator > other:
                        dominator = above[dominator]
                    else:
                        other = above[other]  # noqa: PLW2901 - both climb to where they meet
                dominator = other
            changed |= not forward and above[here] != dominator
            above[here] = dominator
    found_above = np.asarray(above, dtype=np.int32)
    dominators = np.full(size, -1, dtype=np.int32)
    dominators[order] = np.where(found_above < 0, -1, order[found_above])
    return dominators


def _nodes_after(size: int, targets: Int32, root: int) -> Int32:
    """*root* and the nodes behind it that anything leads to; all edges lead on."""
    led_to = np.zeros(size, dtype=np.bool_)
    led_to[targets] = led_to[root] = True
    led_to[:root] = False
    return np.flatnonzero(led_to).astype(np.int32)


def _reached(size: int, sources: Int32, targets: Int32, root: int) -> Int32:
    """The nodes *root* leads to, each after one that leads to it (reverse postorder)."""
    start, successors = csr(size, sources, targets)
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
    return np.asarray(done[::-1], dtype=np.int32)
