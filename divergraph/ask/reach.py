"""For each op of a graph, which of a few given ops lie upstream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphstore.columns.coded import Coded, small
from graphstore.traverse.arrays import GraphArrays


def upstream_of_each(arrays: GraphArrays, starts: Sequence[int]) -> Coded[tuple[int, ...]]:
    """For each op number, the places in *starts* of the ops it can be reached from.

    An op reaches itself only through a loop. Different answers are few, as ops behind each other
    share them. It takes one pass over the edges, a few more if the graph has loops.
    """
    reached = _masks(arrays, starts)
    codes: dict[int, int] = {}
    column = [codes.setdefault(mask, len(codes)) for mask in reached]
    answers = (
        tuple(place for place in range(mask.bit_length()) if mask >> place & 1) for mask in codes
    )
    return Coded(small(np.asarray(column, dtype=np.int32), len(codes)), tuple(answers))


def _masks(arrays: GraphArrays, starts: Sequence[int]) -> list[int]:
    """For each op a number whose bit i is set if ``starts[i]`` reaches it."""
    size = len(arrays.ids)
    own = {number: 1 << place for place, number in enumerate(starts)}
    begin, sources = arrays.predecessor_start.tolist(), arrays.predecessor_ops.tolist()
    reached = [0] * size
    passed_on = [own.get(number, 0) for number in range(size)]
    equal: dict[int, int] = {}
    again = bool(starts)
    while again:
        changed = False
        for number in range(size):
            mask = reached[number]
            for source in sources[begin[number] : begin[number + 1]]:
                mask |= passed_on[source]
            if mask != reached[number]:
                changed = True
                reached[number] = equal.setdefault(mask, mask)
                passed = mask | own.get(number, 0)
                passed_on[number] = equal.setdefault(passed, passed)
        again = changed and _has_way_back(arrays)
    return reached


def _has_way_back(arrays: GraphArrays) -> bool:
    targets = np.repeat(np.arange(len(arrays.ids)), np.diff(arrays.predecessor_start))
    return bool(np.any(arrays.predecessor_ops >= targets))
