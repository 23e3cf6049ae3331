"""Ops as tables show them, read slice by slice: nothing of a big graph is kept here.

A hundred thousand rows go through these functions, so they take rows as tuples, with the
columns in the order of the queries ``listed_*``, and share equal values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from graphstore import codec
from graphstore.contract import ListedOp
from graphstore.model import (
    Comparison,
    DType,
    Level,
    Metric,
    OpState,
    Reason,
    Side,
    Tensor,
    TensorIO,
)
from graphstore.records import METRIC_SET_COLUMNS, metric_set_value

Row: TypeAlias = tuple[Any, ...]
AskSlice: TypeAlias = Callable[[str, int, int], Sequence[Row]]
"""The rows of a named query for the ops with topo from .. until."""
Loose: TypeAlias = Mapping[str, Sequence[tuple[int, str]]]
"""By op: the partners that are in no graph, each with its place among all links."""

SLICE = 25_000
_PARTNERS = {Side.DEVICE: "listed_originals", Side.GOLDEN: "listed_device_ops"}
_IOS = {io.value: io for io in TensorIO}
_LEVELS = {None: None} | {level.value: level for level in Level}
_REASONS = {None: None} | {reason.value: reason for reason in Reason}
_DTYPES = {None: None} | {dtype.value: dtype for dtype in DType}
_STATES = {state.value: state for state in OpState}
_PLAIN = 12
"""Columns of ``listed_results`` before those of the metric set."""

_T = TypeVar("_T")


def listed_ops(ask: AskSlice, side: Side, loose: Loose | None) -> Iterator[ListedOp]:
    """The ops behind *ask* in topo order.

    *loose* is None for an imported graph, which has no results and no partners.
    """
    first = 0
    while True:
        until = first + SLICE
        ops = ask("listed_ops", first, until)
        tensors = _by_topo(ask("listed_tensors", first, until), _tensor)
        results: dict[int, list[Row]] = {}
        partners: dict[int, list[Row]] = {}
        if loose is not None:
            partners = _by_topo(ask(_PARTNERS[side], first, until), lambda row: row[1:])
        if loose is not None and side is Side.DEVICE:
            results = _by_topo(ask("listed_results", first, until), lambda row: row)
        for topo, row in enumerate(ops, start=first):
            linked = partners.get(topo, ())
            also = () if not loose else loose.get(row[0], ())
            names = [name for _, name in (sorted([*linked, *also]) if also else linked)]
            yield _listed(row, tensors.get(topo, ()), results.get(topo, ()), names)
        if len(ops) < SLICE:
            return
        first = until


def _by_topo(rows: Iterable[Row], value: Callable[[Row], _T]) -> dict[int, list[_T]]:
    found: dict[int, list[_T]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(value(row))
    return found


def _listed(
    row: Row, outputs: Sequence[Tensor], results: Sequence[Row], partners: Sequence[str]
) -> ListedOp:
    op, name, kind, subgraph, originals, original_names = row
    return ListedOp(
        id=op,
        name=op if name == op else name,
        type=sys.intern(kind),
        subgraph=sys.intern(subgraph),
        original_names=None if originals is None else tuple(original_names or ()),
        outputs=tuple(outputs),
        partners=tuple(dict.fromkeys(partners)),
        state=_STATES[results[0][3]] if results else None,
        results=tuple([_comparison(op, result) for result in results]),
    )


def _tensor(row: Row) -> Tensor:
    _, shape, dtype, layout = row
    return Tensor("", _DTYPES[dtype], codec.shape_value(shape), layout and sys.intern(layout))


def _comparison(op: str, row: Row) -> Comparison:
    _, io, port, _, level, compared, failed, reason, detail, shape, dtype, overflow = row[:_PLAIN]
    metrics = dict(zip(METRIC_SET_COLUMNS, row[_PLAIN:], strict=True)) if compared else None
    return Comparison(
        op,
        _IOS[io],
        port,
        metrics=None if metrics is None else metric_set_value(metrics),
        level=_LEVELS[level],
        failed=tuple(map(Metric, failed)) if failed else (),
        reason=_REASONS[reason],
        detail=detail or "",
        shape=codec.shape_value(shape),
        device_dtype=_DTYPES[dtype],
        overflow=overflow,
    )
