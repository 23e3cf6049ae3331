"""Ops as tables show them, read slice by slice: nothing of a big graph is kept here.

A hundred thousand rows go through these functions, so values are made column by column
(the columns are in the order of the queries ``listed_*``) and equal ones are shared.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, repeat, starmap
from typing import Any, TypeAlias, TypeVar

from graphstore.contract import ListedOp
from graphstore.model import (
    Comparison,
    DType,
    ErrorSplit,
    Guilt,
    Level,
    Metric,
    OpState,
    Reason,
    Role,
    Side,
    Tensor,
    TensorIO,
)
from graphstore.schema import codec
from graphstore.schema.metric_rows import METRIC_SET_COLUMNS
from graphstore.schema.metric_values import metric_sets

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
_ROLES = {role.value: role for role in Role}
_GUILTS = {guilt.value: guilt for guilt in Guilt}
_SPLIT_NUMBERS = ("introduced", "propagated", "floor", "suspicion", "amplification")
_NAN = 21 + METRIC_SET_COLUMNS.index("nan")

_T = TypeVar("_T")


def listed_ops(ask: AskSlice, side: Side, loose: Loose | None) -> Iterator[ListedOp]:
    """The ops behind *ask* in topo order.

    *loose* is None for an imported graph, which has no results and no partners.
    """
    first = 0
    while True:
        until = first + SLICE
        ops = ask("listed_ops", first, until)
        outputs = _tensors(ask("listed_tensors", first, until))
        partners: dict[int, list[tuple[int, str]]] = {}
        results: dict[int, list[tuple[OpState, Comparison]]] = {}
        if loose is not None:
            partners = _partners(ask(_PARTNERS[side], first, until))
        if loose is not None and side is Side.DEVICE:
            results = _results(ask("listed_results", first, until))
        for topo, row in enumerate(ops, start=first):
            linked = partners.get(topo, [])
            if loose and row[0] in loose:
                linked = sorted([*linked, *loose[row[0]]])
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


def _results(rows: Sequence[Row]) -> dict[int, list[tuple[OpState, Comparison]]]:
    if not rows:
        return {}
    columns = list(zip(*rows, strict=True))
    topo, op, io, port, state, level, compared = columns[:7]
    failed, reason, detail, shape, dtype, overflow = columns[7:13]
    metrics = iter(metric_sets([list(compress(column, compared)) for column in columns[21:]]))
    comparisons = map(
        Comparison,
        op,
        map(_IOS.__getitem__, io),
        port,
        repeat(None),
        repeat(None),
        [next(metrics) if known else None for known in compared],
        map(_LEVELS.__getitem__, level),
        [tuple(map(Metric, names)) if names else () for names in failed],
        map(_REASONS.__getitem__, reason),
        [text or "" for text in detail],
        map(codec.shape_value, shape),
        map(_DTYPES.__getitem__, dtype),
        repeat(None),
        repeat(""),
        repeat(""),
        repeat(None),
        overflow,
        repeat(None),
        _splits(columns[13:21], columns[_NAN]),
    )
    return _by_topo(topo, zip(map(_STATES.__getitem__, state), comparisons, strict=True))


def _splits(
    columns: Sequence[Sequence[Any]], nan: Sequence[Sequence[str] | None]
) -> Iterable[ErrorSplit | None]:
    """Splits of the columns from ``role`` on, without group and reference."""
    role = columns[0]
    if not any(role):
        return repeat(None)
    values = [list(compress(column, role)) for column in (*columns, nan)]
    known = iter(starmap(_split, zip(*values, strict=True)))
    return [next(known) if one else None for one in role]


def _split(role: str, guilt: str, *rest: Any) -> ErrorSplit:
    *values, failure, nan = rest
    numbers = dict(zip(_SPLIT_NUMBERS, values, strict=True))
    if nan:
        numbers |= {name: math.nan for name in nan if name in numbers}
    return ErrorSplit(_ROLES[role], _GUILTS[guilt], **numbers, failure=failure or "")
