"""Traversals on :class:`graphstore.traverse.arrays.GraphArrays`: the same answer on every store.

All are iterative (graphs are deep), visit each op and edge once, never list paths, and
return op numbers in ascending (topo) order. Cycles are allowed everywhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphstore.traverse.arrays import Bool, GraphArrays, Int32, csr
from graphstore.traverse.components import condense
from graphstore.traverse.measured_ops import MeasuredOpPairs


def descendants(arrays: GraphArrays, starts: Iterable[int]) -> Int32:
    """Numbers of the ops that any of *starts* feeds, over any distance; *starts* left out."""
    return _reach(arrays.successor_start, arrays.successor_ops, starts)


def ancestors(arrays: GraphArrays, ends: Iterable[int]) -> Int32:
    """Numbers of the ops that feed any of *ends*, over any distance; *ends* left out."""
    return _reach(arrays.predecessor_start, arrays.predecessor_ops, ends)


def between(arrays: GraphArrays, starts: Iterable[int], ends: Iterable[int]) -> Int32:
    """Numbers of the ops on some path from *starts* to *ends*, both ends with them.

    Empty if no end can be reached from any start.
    """
    starts, ends = list(starts), list(ends)
    if not starts or not ends:
        return np.zeros(0, dtype=np.int32)
    inside = range(len(arrays.ids))
    if not has_way_back(arrays):  # no path leaves the numbers between its ends
        inside = range(min(starts), max(ends) + 1)
    below = _reach_with(arrays.successor_start, arrays.successor_ops, starts, inside)
    above = _reach_with(arrays.predecessor_start, arrays.predecessor_ops, ends, inside)
    return (np.flatnonzero(below & above) + inside.start).astype(np.int32)


def has_way_back(arrays: GraphArrays) -> bool:
    """True if an op feeds itself or one with a lower number, as in a loop."""
    return bool(np.any(arrays.successor_ops <= _edge_sources(arrays)))


def induced_edges(arrays: GraphArrays, inside: Bool) -> tuple[Int32, Int32]:
    """(sources, targets): the edges with both ends *inside*, a mask; sorted by source, target."""
    sources = _edge_sources(arrays)
    keep = inside[sources] & inside[arrays.successor_ops]
    return sources[keep], arrays.successor_ops[keep]


@dataclass(frozen=True)
class Propagation:
    """Where the value of one op goes.

    ``ops`` are all descendants in topo order, ``distance`` the fewest edges to each,
    ``outputs`` those of them (or the op itself) that feed nothing further.
    """

    op: int
    ops: Int32
    distance: Int32
    outputs: Int32


def propagation(arrays: GraphArrays, op: int, over: Bool | None = None) -> Propagation:
    """How far *op* reaches; with *over*, only through ops for which it is true.

    ``over`` has one value per op; *op* itself need not be over. With it, an output is
    an op with no successor that is over.
    """
    start, successors = arrays.successor_start.tolist(), arrays.successor_ops.tolist()
    allowed = None if over is None else over.tolist()
    distance = [-1] * len(arrays.ids)
    distance[op] = 0
    outputs: list[int] = []
    level = [op]
    while level:
        following: list[int] = []
        for number in level:
            targets = successors[start[number] : start[number + 1]]
            if allowed is not None:
                targets = [target for target in targets if allowed[target]]
            if not targets:
                outputs.append(number)
            for target in targets:
                if distance[target] < 0:
                    distance[target] = distance[number] + 1
                    following.append(target)
        level = following
    distance[op] = -1
    distances = np.asarray(distance, dtype=np.int32)
    ops = np.flatnonzero(distances >= 0).astype(np.int32)
    return Propagation(op, ops, distances[ops], np.asarray(sorted(outputs), dtype=np.int32))


def nearest_measured_ancestors(arrays: GraphArrays, op: int, measured: Bool) -> Int32:
    """Measured ops that reach *op* through unmeasured ones only (*op* itself: in a loop)."""
    measured_ancestors: set[int] = set()
    seen = {op}
    stack = [op]
    while stack:
        number = stack.pop()
        # not all edges as a list: most questions are about a few of a million
        for source in arrays.predecessors(number).tolist():
            if measured[source]:
                measured_ancestors.add(source)
            elif source not in seen:
                seen.add(source)
                stack.append(source)
    return np.asarray(sorted(measured_ancestors), dtype=np.int32)


def few_next_measured(
    arrays: GraphArrays, measured: Bool, limit: int
) -> tuple[Int32, Int32] | None:
    """(sources, targets): from each measured op to those reached through unmeasured ones.

    Sorted by source, target, without doubles; a loop may lead back to its own source. None if there
    are more than *limit* (there can be as many as the square of the ops), or if finding them takes
    far more steps than *limit* and the edges together.
    """
    return MeasuredOpPairs(arrays, measured, limit).pairs()


def worst_before(
    arrays: GraphArrays, measured: Bool, error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest *error* of the measured ops just before each measured op, else NaN.

    *error* has one value per op, NaN where there is none. Just before means through unmeasured ops
    only, and earlier by topo. Values at unmeasured ops are meaningless.
    """
    size, sources, targets = len(arrays.ids), _edge_sources(arrays), arrays.successor_ops
    into = measured[targets]
    if np.all(sources < targets):
        return _worst_without_loops(sources, targets, into, measured, error)
    worst = np.full(size, -np.inf)
    direct = into & measured[sources] & (sources < targets)
    np.fmax.at(worst, targets[direct], error[sources[direct]])
    # Not np.unique: its first call imports masked arrays, which costs more than all of this.
    leaves = np.zeros(size, dtype=np.bool_)
    leaves[sources[measured[sources] & ~into]] = True
    through = np.flatnonzero(leaves & ~np.isnan(error)).astype(np.int32)
    worst_errors: list[float] = worst.tolist()
    ends = (csr(size, sources[part], targets[part]) for part in (into, ~into))
    _carry_on(worst_errors, through, error, _stretches(size, sources, targets), *ends)
    answer = np.asarray(worst_errors)
    answer[np.isneginf(answer)] = np.nan
    return answer


def _worst_without_loops(
    sources: Int32, targets: Int32, into: Bool, measured: Bool, error: NDArray[np.float64]
) -> NDArray[np.float64]:
    """:func:`worst_before` where edges, sorted by source, lead to later ops only: then one pass
    over those between unmeasured ops is enough, a tenth of the time."""
    own = np.where(measured & ~np.isnan(error), error, -np.inf)
    first, on = measured[sources] & ~into, ~measured[sources] & ~into
    before = np.full(len(own), -np.inf)
    np.maximum.at(before, targets[first], own[sources[first]])
    through: list[float] = before.tolist()
    for source, target in zip(sources[on].tolist(), targets[on].tolist(), strict=True):
        if through[target] < through[source]:
            through[target] = through[source]
    worst = np.full(len(own), -np.inf)
    passed_on = np.where(measured, own, through)
    np.maximum.at(worst, targets[into], passed_on[sources[into]])
    worst[np.isneginf(worst)] = np.nan
    return worst


def _carry_on(
    worst_errors: list[float],
    starts: Int32,
    error: NDArray[np.float64],
    stretch: Sequence[int],
    into: tuple[Int32, Int32],
    on: tuple[Int32, Int32],
) -> None:
    """Bring the errors of measured *starts* to the measured ops after unmeasured ones.

    *into* and *on* are the edges to measured and to unmeasured ops. The largest error goes
    first, so an op is passed again only from a start that comes earlier: for the measured ops
    between the two, which the first one did not count for. Out of a loop (a *stretch*) all ops
    come later, so there one error is enough.
    """
    into_start, into_ops = (part.tolist() for part in into)
    on_start, on_ops = (part.tolist() for part in on)
    passed = [len(worst_errors)] * len(worst_errors)
    order = starts[np.argsort(-error[starts], kind="stable")]
    for start, value in zip(order.tolist(), error[order].tolist(), strict=True):
        stack = [(start, len(worst_errors))]
        own = stretch[start]
        while stack:
            op, limit = stack.pop()
            low, high = into_start[op], into_start[op + 1]
            first = bisect_right(into_ops, start, low, high)
            for target in into_ops[first : bisect_right(into_ops, limit, first, high)]:
                if worst_errors[target] < value:
                    worst_errors[target] = value
            for other in on_ops[on_start[op] : on_start[op + 1]]:
                mark = start if own == stretch[other] else -1
                if mark < passed[other]:
                    stack.append((other, min(limit, passed[other])))
                    passed[other] = mark


def _stretches(size: int, sources: Int32, targets: Int32) -> list[int]:
    """By op the stretch it is in of the topo order; no edge leads back out of one."""
    back = sources > targets
    inside = np.zeros(size + 1, dtype=np.int64)
    np.add.at(inside, targets[back] + 1, 1)
    np.add.at(inside, sources[back] + 1, -1)
    numbers: list[int] = np.cumsum(np.cumsum(inside[:size]) == 0).tolist()
    return numbers


def first_edges(arrays: GraphArrays, count: int) -> tuple[int, int] | None:
    """(source, target) of edge number *count* (from 0), by source, then target; or None."""
    if count >= len(arrays.successor_ops):
        return None
    source = int(np.searchsorted(arrays.successor_start, count, "right")) - 1
    return source, int(arrays.successor_ops[count])


def first_diverging(arrays: GraphArrays, measured: Bool, over: Bool) -> Int32:
    """Measured ops over a limit with no nearest measured ancestor over one.

    *over* counts only where *measured* is true. Ops over a limit that feed each other in
    a loop count as one: if nothing before the loop is over, its first op by topo is the
    origin; else none of it is.
    """
    bad = over & measured
    passes = bad | ~measured
    sources, targets = _edge_sources(arrays), arrays.successor_ops
    keep = passes[sources] & passes[targets]
    sources, targets = sources[keep], targets[keep]
    if np.all(sources < targets):
        return _untainted(len(arrays.ids), sources, targets, bad)
    group, group_count, edges = condense(len(arrays.ids), sources, targets)
    group_bad = np.zeros(group_count, dtype=np.bool_)
    np.logical_or.at(group_bad, group, bad)
    first_groups = set(_untainted(group_count, *edges, group_bad).tolist())
    firsts: dict[int, int] = {}
    for number in np.flatnonzero(bad).tolist():
        if group[number] in first_groups:
            firsts.setdefault(int(group[number]), number)
    return np.asarray(sorted(firsts.values()), dtype=np.int32)


def _untainted(size: int, sources: Int32, targets: Int32, bad: Bool) -> Int32:
    """Bad nodes that no bad node reaches; every edge goes from a lower to a higher number."""
    order = np.argsort(sources, kind="stable")
    tainted = bytearray(size)
    flags = bad.tolist()
    for source, target in zip(sources[order].tolist(), targets[order].tolist(), strict=True):
        if flags[source] or tainted[source]:
            tainted[target] = 1
    clean = np.frombuffer(bytes(tainted), dtype=np.uint8) == 0
    return np.flatnonzero(bad & clean).astype(np.int32)


def _edge_sources(arrays: GraphArrays) -> Int32:
    numbers = np.arange(len(arrays.ids), dtype=np.int32)
    return np.repeat(numbers, np.diff(arrays.successor_start))


def _reach(start: Int32, neighbours: Int32, roots: Iterable[int]) -> Int32:
    first = list(roots)
    seen = _reach_with(start, neighbours, first, range(len(start) - 1))
    seen[first] = False
    return np.flatnonzero(seen).astype(np.int32)


def _reach_with(start: Int32, neighbours: Int32, roots: Iterable[int], inside: range) -> Bool:
    """True for each op of *inside* that can be reached from *roots* by others of these, and for
    those of the roots."""
    first, size = inside.start, len(inside)
    begin = start[first : inside.stop + 1] - start[first]
    following = (neighbours[start[first] : start[inside.stop]] - first).tolist()
    seen = bytearray(size)
    stack = [root - first for root in roots if root in inside]
    for root in stack:
        seen[root] = 1
    places = begin.tolist()
    while stack:
        number = stack.pop()
        for other in following[places[number] : places[number + 1]]:
            if 0 <= other < size and not seen[other]:
                seen[other] = 1
                stack.append(other)
    return np.frombuffer(seen, dtype=np.bool_)
