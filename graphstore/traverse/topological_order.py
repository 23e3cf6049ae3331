"""The topological order that numbers a graph's ops, shared by all stores and front ends."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Sequence

import numpy as np

from graphstore.model import ModelGraph
from graphstore.traverse.arrays import GraphArrays, Int32, arrays_from_edges, csr
from graphstore.traverse.components import components
from graphstore.traverse.edge_columns import EdgeEnds, edge_columns, places

_Pairs = tuple[list[int], list[int]]


def topo_order(graph: ModelGraph) -> list[str]:
    """Op ids so that producers come before consumers; always the same for one graph.

    Among ops that are free to go, the lowest (sequence, place in the file) goes first.
    Data, call and control edges count. Ops of a loop stay together, entered where the
    loop is; a control edge that would close a loop is ignored.
    """
    edges = edge_columns(graph, places(graph))
    return [graph.ops[place].id for place in topo_places(sequences(graph), edges).tolist()]


def graph_arrays(graph: ModelGraph) -> GraphArrays:
    """The arrays of *graph*, numbered by :func:`topo_order`."""
    edges = edge_columns(graph, places(graph))
    order = topo_places(sequences(graph), edges)
    return arrays_in_order([op.id for op in graph.ops], edges, order)


def arrays_in_order(ids: Sequence[str], edges: EdgeEnds, order: Int32) -> GraphArrays:
    """The arrays of the ops *ids* (in file order) whose edges and order are known."""
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return arrays_from_edges(
        [ids[place] for place in order.tolist()], (number[edges.sources], number[edges.targets])
    )


def sequences(graph: ModelGraph) -> list[int]:
    """The keys that order independent ops, in file order."""
    return [op.sequence for op in graph.ops]


def topo_places(sequence: Sequence[int], edges: EdgeEnds) -> Int32:
    """The places of the ops in the file, in the order of :func:`topo_order`."""
    return np.asarray(_order(sequence, edges), dtype=np.int32)


def _order(sequence: Sequence[int], columns: EdgeEnds) -> Sequence[int]:
    size = len(sequence)
    by_key: Sequence[int] = range(size)
    if any(map(operator.gt, sequence, sequence[1:])):
        by_key = sorted(by_key, key=sequence.__getitem__)  # keeps the places of equals
    ranks = np.empty(size, dtype=np.int32)
    ranks[np.asarray(by_key, dtype=np.int64)] = np.arange(size, dtype=np.int32)
    sources = np.concatenate((columns.sources, columns.control_sources))
    targets = np.concatenate((columns.targets, columns.control_targets))
    if np.all(ranks[sources] < ranks[targets]):
        return by_key  # the lowest rank is always free to go
    rank = ranks.tolist()
    start, successors = _csr(size, sources, targets)
    order = _kahn(rank, start, successors)
    if len(order) == size:
        return order
    data = (columns.sources.tolist(), columns.targets.tolist())
    control = (columns.control_sources.tolist(), columns.control_targets.tolist())
    return _order_with_loops(rank, data, control, components(start, successors))


def _order_with_loops(
    rank: Sequence[int], data: _Pairs, control: _Pairs, knot: Sequence[int]
) -> list[int]:
    """Order with the loops of data edges contracted; *knot* are those of all edges."""
    size = len(rank)
    loop = components(*_csr(size, *data))
    edges = [
        (source, target)
        for source, target in zip(*control, strict=True)
        if knot[source] != knot[target]
    ]
    sources = data[0] + [source for source, _ in edges]
    targets = data[1] + [target for _, target in edges]
    members: list[list[int]] = [[] for _ in range(max(loop) + 1)]
    for place in sorted(range(size), key=rank.__getitem__):
        members[loop[place]].append(place)
    outer = [
        (loop[source], loop[target])
        for source, target in zip(sources, targets, strict=True)
        if loop[source] != loop[target]
    ]
    start, successors = _csr(len(members), [s for s, _ in outer], [t for _, t in outer])
    loop_rank = [rank[ops[0]] for ops in members]
    inner_start, inner = _csr(size, *data)
    entered = {
        target
        for source, target in zip(sources, targets, strict=True)
        if loop[source] != loop[target]
    }
    order: list[int] = []
    for number in _kahn(loop_rank, start, successors):
        ops = members[number]
        if len(ops) == 1:
            order.extend(ops)
        else:
            order.extend(_inside_loop(ops, rank, loop, inner_start, inner, entered))
    return order


def _inside_loop(
    ops: Sequence[int],
    rank: Sequence[int],
    loop: Sequence[int],
    start: Sequence[int],
    successors: Sequence[int],
    entered: set[int],
) -> list[int]:
    """The ops of one loop: from where it is entered, each after its producers if possible."""
    inside = loop[ops[0]]
    waiting = dict.fromkeys(ops, 0)
    for place in ops:
        for target in successors[start[place] : start[place + 1]]:
            if loop[target] == inside and target != place:
                waiting[target] += 1
    spare = [(place not in entered, rank[place], place) for place in ops]
    heapq.heapify(spare)
    ready: list[tuple[int, int]] = []
    order: list[int] = []
    while waiting:
        place = heapq.heappop(ready)[1] if ready else heapq.heappop(spare)[2]
        if place not in waiting:
            continue
        del waiting[place]
        order.append(place)
        for target in successors[start[place] : start[place + 1]]:
            if target in waiting:
                waiting[target] -= 1
                if waiting[target] == 0:
                    heapq.heappush(ready, (rank[target], target))
    return order


def _kahn(rank: Sequence[int], start: Sequence[int], successors: Sequence[int]) -> list[int]:
    """Nodes in topological order, lowest rank first; those in or after a loop are missing."""
    size = len(rank)
    waiting = np.bincount(np.asarray(successors, dtype=np.int64), minlength=size).tolist()
    node_of = {position: node for node, position in enumerate(rank)}
    ready = [rank[node] for node in range(size) if waiting[node] == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        node = node_of[heapq.heappop(ready)]
        order.append(node)
        for target in successors[start[node] : start[node + 1]]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(ready, rank[target])
    return order


def lowest_first(size: int, sources: Sequence[int], targets: Sequence[int]) -> list[int]:
    """The nodes 0 to *size* - 1 in topological order, the lowest that is free to go first; those
    in or after a loop are missing."""
    return _kahn(range(size), *_csr(size, sources, targets))


def _csr(
    size: int, sources: Sequence[int] | Int32, targets: Sequence[int] | Int32
) -> tuple[list[int], list[int]]:
    start, ops = csr(size, np.asarray(sources, dtype=np.int32), np.asarray(targets, dtype=np.int32))
    return start.tolist(), ops.tolist()
