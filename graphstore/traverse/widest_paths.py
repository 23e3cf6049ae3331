"""The way on which most of an error is carried, to every op at once; ways are never listed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from graphstore.traverse.arrays import Bool, GraphArrays, Int32


def widest_ways(
    arrays: GraphArrays,
    starts: Iterable[int],
    inside: Bool,
    error: NDArray[np.float64],
) -> Int32:
    """For each op the op before it on its widest way from one of *starts*.

    A way is as wide as the smallest *error* of the measured ops on it (NaN: not measured,
    passed freely); of equally wide ones the op with the larger error just before it is
    taken, then the one with fewer ops. Only ops of the mask *inside* are passed. Starts have
    themselves, ops that are not reached -1. O(edges log ops), with loops too.
    """
    start, successors = arrays.successor_start.tolist(), arrays.successor_ops.tolist()
    allowed, errors = inside.tolist(), error.tolist()
    size = len(arrays.ids)
    width = [-1.0] * size
    carried, hops = [0.0] * size, [0] * size
    before = [-1] * size
    done = bytearray(size)
    heap: list[tuple[float, int]] = []
    for root in dict.fromkeys(starts):
        before[root] = root
        width[root] = carried[root] = _known(errors[root], math.inf)
        heapq.heappush(heap, (-width[root], root))
    roots = {root for _, root in heap}
    while heap:
        wide, node = heapq.heappop(heap)
        if done[node] or -wide < width[node]:
            continue
        done[node] = 1
        for other in successors[start[node] : start[node + 1]]:
            if done[other] or other in roots or not allowed[other]:
                continue
            through = min(width[node], _known(errors[other], math.inf))
            better = (through, carried[node], -hops[node] - 1)
            last = before[other]
            if last >= 0 and better <= (width[other], carried[last], -hops[other]):
                continue
            if last < 0 or through > width[other]:
                heapq.heappush(heap, (-through, other))
            width[other], before[other], hops[other] = through, node, hops[node] + 1
            carried[other] = _known(errors[other], carried[node])
    return np.asarray(before, dtype=np.int32)


def way_to(before: Int32, end: int) -> list[int]:
    """The ops of the way to *end*, from its start on; empty if none leads there."""
    if before[end] < 0:
        return []
    way = [end]
    while before[way[-1]] != way[-1]:
        way.append(int(before[way[-1]]))
    return way[::-1]


def _known(value: float, otherwise: float) -> float:
    return otherwise if math.isnan(value) else value
