"""Ops as tables show them, read slice by slice: nothing of a big graph is kept here.

A hundred thousand rows go through these functions, so values are made column by column
(the columns are in the order of the queries ``listed_*``) and equal ones are shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

from graphstore.contract import ListedOp, QueryResult
from graphstore.cypher.metric_reading import columns_of
from graphstore.model import Comparison, DType, OpState, Side, Tensor
from graphstore.schema import codec
from graphstore.schema.metric_values import choices, comparison_values

Row: TypeAlias = tuple[Any, ...]
AskSlice: TypeAlias = Callable[[str, int, int], QueryResult]
"""The answer of a named query for the ops with topo from .. until."""
Loose: TypeAlias = Mapping[str, Sequence[tuple[int, str]]]
"""By op: the partners that are in no graph, each with its place among all links."""

SLICE = 25_000
_PARTNERS = {Side.DEVICE: "listed_originals", Side.GOLDEN: "listed_device_ops"}
_DTYPES = choices(DType)
_STATES = choices(OpState)

_T = TypeVar("_T")


def listed_ops(ask: AskSlice, side: Side, loose: Loose | None) -> Iterator[ListedOp]:
    """The ops behind *ask* in topo order.

    *loose* is None for an imported graph, which has no results and no partners.
    """
    first = 0
    while True:
        until = first + SLICE
        ops = ask("listed_ops", first, until).rows
        outputs = _tensors(ask("listed_tensors", first, until).rows)
        partners: dict[int, list[tuple[int, str]]] = {}
        results: dict[int, list[tuple[OpState, Comparison]]] = {}
        if loose is not None:
            partners = _partners(ask(_PARTNERS[side], first, until).rows)
        if loose is not None and side is Side.DEVICE:
            results = _results(ask("listed_results", first, until))
        for topo, row in enumerate(ops, start=first):
            linked = partners.get(topo, [])
            op = str(row[0])
            if loose and op in loose:
                linked = sorted([*linked, *loose[op]])
            yield _listed(row, outputs.get(topo, ()), results.get(topo, ()), linked)
        if len(ops) < SLICE:
            return
        first = until


def _listed(
    row: Row,
    outputs: Sequence[Tensor],
    results: Sequence[tuple[OpState, Comparison]],
    linked: Sequence[tuple[int, str]],
) -> ListedOp:
    op, name, kind, subgraph, originals, original_names = row
    return ListedOp(
        op,
        op if name == op else name,
        sys.intern(kind),
        sys.intern(subgraph),
        None if originals is None else tuple(original_names or ()),
        tuple(outputs),
        tuple(dict.fromkeys([partner for _, partner in linked])),
        results[0][0] if results else None,
        tuple([comparison for _, comparison in results]),
    )


def _by_topo(topos: Iterable[int], values: Iterable[_T]) -> dict[int, list[_T]]:
    found: dict[int, list[_T]] = {}
    for topo, value in zip(topos, values, strict=True):
        found.setdefault(topo, []).append(value)
    return found


def _tensors(rows: Sequence[Row]) -> dict[int, list[Tensor]]:
    if not rows:
        return {}
    topo, shape, dtype, layout = zip(*rows, strict=True)
    shapes = map(codec.shape_value, shape)
    return _by_topo(topo, map(Tensor, repeat(""), map(_DTYPES.get, dtype), shapes, layout))


def _partners(rows: Sequence[Row]) -> dict[int, list[tuple[int, str]]]:
    return _by_topo((row[0] for row in rows), (row[1:] for row in rows))


def _results(answer: QueryResult) -> dict[int, list[tuple[OpState, Comparison]]]:
    if not answer.rows:
        return {}
    columns = columns_of(answer)
    comparisons = comparison_values(columns)
    states = map(_STATES.__getitem__, columns["state"])
    return _by_topo(columns["topo"], zip(states, comparisons, strict=True))
