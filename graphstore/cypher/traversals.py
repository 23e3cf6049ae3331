"""Named queries that are answered on arrays: the same way, and fast, on every store.

The texts of the same names in ``graphstore/cypher/queries`` say the same in Cypher; the tests hold
the two against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.run_outputs import RunOutputs
from graphstore.contract import QueryResult
from graphstore.cypher.limits import cut
from graphstore.cypher.op_search import OpIndex
from graphstore.traverse.algorithms import (
    ancestors,
    between,
    descendants,
    first_diverging,
    worst_before,
)
from graphstore.traverse.arrays import GraphArrays, Int32

_OP_COLUMNS = ("topo", "op", "type")
_SMALL = 0.001
"""Errors up to this do not count as amplified."""


@dataclass(frozen=True)
class OpErrors:
    """Relative Euclidean distances, one value per op, NaN where there is none.

    ``own`` is the worst of the op's compared outputs, ``before`` the worst of the measured
    ops just before it.
    """

    own: NDArray[np.float64]
    before: NDArray[np.float64]


def op_errors(arrays: GraphArrays, outputs: RunOutputs) -> OpErrors:
    """The errors of the ops of a run."""
    size = len(arrays.ids)
    own = np.full(size, np.nan)
    np.fmax.at(own, outputs.topo, outputs.distance)
    measured, _ = outputs.masks(size)
    return OpErrors(own, worst_before(arrays, measured, own))


@dataclass(frozen=True)
class TraversalRequest:
    """One question: how its target's arrays are got, its parameters, its row limit.

    Parameters that are ops are numbers of ``arrays``.
    """

    arrays: Callable[[], GraphArrays]
    index: Callable[[], OpIndex]
    outputs: Callable[[], RunOutputs]
    errors: Callable[[], OpErrors]
    params: Mapping[str, Any]
    limit: int | None


def _ancestors(request: TraversalRequest) -> QueryResult:
    return _ops(request, ancestors(request.arrays(), [request.params["op"]]))


def _descendants(request: TraversalRequest) -> QueryResult:
    return _ops(request, descendants(request.arrays(), [request.params["op"]]))


def _ops_between(request: TraversalRequest) -> QueryResult:
    ends = request.params["start_op"], request.params["end_op"]
    return _ops(request, between(request.arrays(), ends[:1], ends[1:]))


def _first_diverging(request: TraversalRequest) -> QueryResult:
    arrays = request.arrays()
    return _ops(request, first_diverging(arrays, *request.outputs().masks(len(arrays.ids))))


def _propagation(request: TraversalRequest) -> QueryResult:
    arrays, outputs = request.arrays(), request.outputs()
    reached = np.zeros(len(arrays.ids), dtype=np.bool_)
    reached[descendants(arrays, [request.params["op"]])] = True
    places = np.flatnonzero(reached[outputs.topo])
    ops = places[: request.limit].tolist()
    index, topo, port = request.index(), outputs.topo, outputs.port
    rows = []
    for place in ops:
        number = int(topo[place])
        level, _, distance, nan = outputs.values(place)
        rows.append(
            (number, index.ids[number], index.kinds[number], int(port[place]), level, distance, nan)
        )
    columns = (*_OP_COLUMNS, "output", "level", "relative_euclidean_distance", "nan")
    return QueryResult(columns, tuple(rows), truncated=len(ops) < len(places))


def _worst_tensors(request: TraversalRequest) -> QueryResult:
    outputs, index = request.outputs(), request.index()
    wanted = max(0, int(request.params["limit"]))
    cut = wanted if request.limit is None else min(wanted, request.limit)
    rows = []
    for place in outputs.worst()[:cut].tolist():
        number = int(outputs.topo[place])
        level, cosine, distance, nan = outputs.values(place)
        kind = index.kinds[number]
        port = int(outputs.port[place])
        rows.append((index.ids[number], port, kind, level, cosine, distance, nan, number))
    columns: tuple[str, ...] = ("op", "output", "type", "level", "cosine_similarity")
    columns += ("relative_euclidean_distance", "nan", "topo")
    return QueryResult(columns, tuple(rows), truncated=cut < min(wanted, len(outputs.topo)))


def _op_search(request: TraversalRequest) -> QueryResult:
    index, wanted = request.index(), str(request.params["text"]).lower()
    fits = [
        number
        for number, (name, kind) in enumerate(zip(index.names, index.kinds, strict=True))
        if wanted in name.lower() or wanted in kind.lower()
    ]
    return _ops(request, np.asarray(fits, dtype=np.int32))


def _ops_by_type(request: TraversalRequest) -> QueryResult:
    counts = sorted(Counter(request.index().kinds).items(), key=lambda item: (-item[1], item[0]))
    return cut(QueryResult(("type", "ops"), tuple(counts)), request.limit)


def _errors_by_type(request: TraversalRequest) -> QueryResult:
    outputs, kinds = request.outputs(), request.index().kinds
    errors_of: dict[str, tuple[int, int, float | None]] = {}
    columns = (outputs.topo.tolist(), outputs.over.tolist(), outputs.distance.tolist())
    for number, is_over, distance in zip(*columns, strict=True):
        tensors, bad, worst = errors_of.get(kinds[number], (0, 0, None))
        if distance == distance and (worst is None or distance > worst):
            worst = distance
        errors_of[kinds[number]] = (tensors + 1, bad + is_over, worst)
    rows = sorted(
        ((kind, *counts) for kind, counts in errors_of.items()), key=lambda row: (-row[2], row[0])
    )
    return cut(QueryResult(("type", "tensors", "over", "worst"), tuple(rows)), request.limit)


def _amplifiers(request: TraversalRequest) -> QueryResult:
    index, errors = request.index(), request.errors()
    own, before = errors.own, errors.before
    places = np.flatnonzero((own > _SMALL) & (own > request.params["times"] * before))
    places = places[np.lexsort((places, -own[places]))]
    rows = [
        (place, index.ids[place], index.kinds[place], float(before[place]), float(own[place]))
        for place in places[: request.limit].tolist()
    ]
    columns = (*_OP_COLUMNS, "before", "error")
    return QueryResult(columns, tuple(rows), truncated=len(rows) < len(places))


ON_ARRAYS: Mapping[str, Callable[[TraversalRequest], QueryResult]] = {
    "amplifiers": _amplifiers,
    "ancestors": _ancestors,
    "descendants": _descendants,
    "errors_by_type": _errors_by_type,
    "first_diverging": _first_diverging,
    "op_search": _op_search,
    "ops_between": _ops_between,
    "ops_by_type": _ops_by_type,
    "propagation": _propagation,
    "worst_tensors": _worst_tensors,
}
"""The named queries answered here."""


def longest_path(arrays: GraphArrays) -> int:
    """The most hops a shortest path in the graph can have, never less than the truth."""
    sources = np.repeat(np.arange(len(arrays.ids), dtype=np.int32), np.diff(arrays.successor_start))
    if np.any(arrays.successor_ops <= sources):
        return len(arrays.ids)
    depth = [0] * len(arrays.ids)
    for source, target in zip(sources.tolist(), arrays.successor_ops.tolist(), strict=True):
        if depth[target] <= depth[source]:
            depth[target] = depth[source] + 1
    return max(depth, default=0)


def _ops(request: TraversalRequest, numbers: Int32) -> QueryResult:
    index = request.index()
    ops = numbers[: request.limit].tolist()
    rows = zip(ops, map(index.ids.__getitem__, ops), map(index.kinds.__getitem__, ops), strict=True)
    return QueryResult(_OP_COLUMNS, tuple(rows), truncated=len(ops) < len(numbers))
