"""The ops of one side as columns: each with its worst output, its state and what it was made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.reasons import ReasonCounter
from graphstore.columns.coded import Bool, Coded, Float, Int, Lists, starts
from graphstore.columns.listed_ops import ListedOps, ListedResults
from graphstore.columns.op_columns import OpColumns, places_of
from graphstore.columns.parts import MetricColumns, SplitColumns
from graphstore.contract import GraphStore
from graphstore.model import DType, Guilt, Level, Metric, OpState, Side
from graphstore.traverse.algorithms import worst_before
from graphstore.traverse.arrays import GraphArrays

_T = TypeVar("_T")
CARRIES = (OpState.INHERITED, OpState.BROKEN)
"""The states of ops whose error started in others."""
_LEVELS = {Level.PASS: 0, Level.WARN: 1, Level.FAIL: 2, None: 0}
GUILT_RANKS = {Guilt.NONE: 0, Guilt.SUSPECT: 1, Guilt.GUILTY: 2}
"""How much each guilt says against an op."""


def read_columns(
    store: GraphStore,
    target: str,
    side: Side,
    arrays: GraphArrays,
    reasons: ReasonCounter,
    numbers: range | None = None,
) -> OpColumns:
    """All ops in topo order, or those of these *numbers* as if there were no others, gains and
    origins not yet known; what was not compared is added to *reasons*."""
    slices, names = [], _Names()
    for listed in store.listed_ops(target, side, numbers):
        if listed.results is not None:
            reasons.add_all(listed.results, listed.first, arrays.ids)
        slices.append(_columns(listed, side, arrays.ids, names))
    if numbers is None:
        return _joined(slices, side, (arrays.ids, arrays.number), names)
    ids = arrays.ids[numbers.start : numbers.stop]
    return _joined(slices, side, (ids, dict(zip(ids, range(len(ids)), strict=True))), names)


def with_causes(
    ops: OpColumns, arrays: GraphArrays, origins: Sequence[str], upstream: Coded[tuple[int, ...]]
) -> OpColumns:
    """*ops* with what depends on other ops: gains, and the *origins* that are *upstream*."""
    carries = ops.states.where(lambda state: state in CARRIES)
    lists = [(), *(tuple(origins[place] for place in places) for places in upstream.values)]
    codes = np.where(carries, upstream.codes.astype(np.int32) + 1, 0)
    for op in origins:
        number = arrays.number[op]
        if carries[number]:
            lists.append(tuple(other for other in lists[codes[number]] if other != op))
            codes[number] = len(lists) - 1
    used, codes = np.unique(codes, return_inverse=True)
    coded = Coded(codes.astype(np.int32), tuple(lists[code] for code in used.tolist()))
    return replace(ops, gain=_gains(ops, arrays), origins=Coded.joined([coded]))


def _gains(ops: OpColumns, arrays: GraphArrays) -> Float:
    """Error out over the worst error of the nearest measured ancestors, else NaN."""
    errors = ops.figure(Metric.RELATIVE_EUCLIDEAN_DISTANCE.value)
    errors[~np.isfinite(errors)] = np.nan
    before = worst_before(arrays, ops.has_metrics, errors)
    before[before <= 0.0] = np.nan
    gains: Float = errors / before
    return gains


class _Names:
    """The names of originals of all slices: those of the other side's ops, then others."""

    def __init__(self) -> None:
        self._partners: Sequence[str] = ()
        self._more: dict[str, int] = {}

    def partners(self, names: Sequence[str]) -> None:
        """What the numbers of partners mean, the same for all slices."""
        self._partners = names

    def numbers(self, names: Iterable[str]) -> Int:
        """The numbers of other names."""
        code_of, first = self._more, len(self._partners)
        codes = [code_of.setdefault(name, first + len(code_of)) for name in names]
        return np.asarray(codes, dtype=np.int32)

    @property
    def all(self) -> Sequence[str]:
        """The names by number."""
        return (*self._partners, *self._more) if self._more else self._partners


def _columns(listed: ListedOps, side: Side, ids: Sequence[str], names: _Names) -> OpColumns:
    """The columns of a slice."""
    count, first = len(listed), listed.first
    results, tensors = listed.results, listed.tensors
    worst = _NONE[[0] * count] if results is None else _worst_outputs(results, count)
    ports = _at(np.zeros(0, np.int32) if results is None else results.ports, worst, 0)
    tensor = np.where(ports < np.diff(tensors.start), tensors.start[:-1] + ports, -1)
    columns = OpColumns(
        side,
        ids[first : first + count],
        {},
        listed.own_names,
        listed.types,
        listed.subgraphs,
        _picked(tensors.dtypes, tensor, None).mapped(_dtype_text),
        _picked(tensors.shapes, tensor, None),
        _picked(tensors.layouts, tensor, None).mapped(lambda layout: layout or ""),
        np.where(listed.is_listed, np.diff(listed.original_names.start), 1).astype(np.int32),
        _originals(listed, side, names),
        Coded.same(None, count),
        Coded.same(None, count),
        _NONE[[0] * count],
        Coded.same((), count),
        Coded.same(None, count),
        Coded.same("", count),
        np.full(count, np.nan),
        Coded.same((), count),
        _NONE[[0] * count],
        MetricColumns.empty(),
        _NONE[[0] * count],
        SplitColumns.empty(),
        np.zeros(count, dtype=np.bool_),
    )
    return columns if results is None else _with_results(columns, results, worst)


def _with_results(ops: OpColumns, results: ListedResults, worst: Int) -> OpColumns:
    """*ops* with what the *worst* compared output of each says, or why it has none."""
    count, there = len(ops), worst >= 0
    first = _firsts(results.ops, np.arange(len(results.ops)), count)
    unmeasured = results.of_output & ~results.reasons.equal(None)
    why = np.where(there, -1, _firsts(results.ops, np.flatnonzero(unmeasured), count))
    dtypes = _picked(results.dtypes, worst, None).mapped(_dtype_text)
    shapes = _picked(results.shapes, worst, None)
    suspects = _most_suspicious(results, count)
    return replace(
        ops,
        dtypes=_chosen(there, dtypes, ops.dtypes),
        shapes=_chosen(~shapes.equal(None), shapes, ops.shapes),
        states=_picked(results.states, first, None),
        levels=_picked(results.levels, worst, None),
        outputs=_at(results.ports, worst, -1),
        failed=_picked(results.failed, worst, ()),
        reasons=_picked(results.reasons, why, None),
        details=_picked(results.details, np.where(there, worst, why), ""),
        measured=places_of(there),
        metrics=results.metrics.take(results.measured[worst[there]]),
        judged=places_of(suspects >= 0),
        splits=results.splits.take(results.judged[suspects[suspects >= 0]]),
        several=np.bincount(results.ops[_compared_outputs(results)], minlength=count) > 1,
    )


_NONE: Int = np.array([-1], dtype=np.int32)


def _dtype_text(dtype: DType | None) -> str:
    return "" if dtype is None else dtype.value


def _worst_outputs(results: ListedResults, count: int) -> Int:
    """For each op the row of its worst compared output, as
    :func:`divergraph.thresholds.verdicts.worst` says; -1 if none was compared."""
    rows = _compared_outputs(results)
    ops = results.ops[rows]
    if len(ops) and np.any(ops[1:] == ops[:-1]):
        metrics = results.metrics.take(results.measured[rows])
        levels = results.levels.take(rows).keyed(_LEVELS.__getitem__)
        error = metrics.numbers[Metric.RELATIVE_EUCLIDEAN_DISTANCE.value]
        instead = np.where(metrics.finite, metrics.share_different, np.inf)
        error = np.where(np.isnan(error), instead, error)
        cosine = np.nan_to_num(metrics.numbers[Metric.COSINE_SIMILARITY.value], nan=0.0)
        rows = rows[np.lexsort((cosine, -error, ~metrics.broken, -levels, ops))]
    return _firsts(results.ops, rows, count)


def _compared_outputs(results: ListedResults) -> NDArray[np.int64]:
    return np.flatnonzero(results.of_output & (results.measured >= 0))


def _most_suspicious(results: ListedResults, count: int) -> Int:
    """For each op the row of the split that says most against it; -1 without a split."""
    rows = np.flatnonzero(results.of_output & (results.judged >= 0))
    ops = results.ops[rows]
    if len(ops) and np.any(ops[1:] == ops[:-1]):
        splits = results.splits.take(results.judged[rows])
        suspicion = np.nan_to_num(splits.numbers["suspicion"].values, nan=-1.0)
        guilt = splits.guilts.keyed(GUILT_RANKS.__getitem__)
        rows = rows[np.lexsort((-suspicion, -guilt, ops))]
    return _firsts(results.ops, rows, count)


def _firsts(ops: Int, rows: NDArray[np.int64], count: int) -> Int:
    """For each op the first of *rows* that is of it, -1 if none is."""
    firsts = np.full(count, -1, dtype=np.int32)
    firsts[ops[rows[::-1]]] = rows[::-1]  # the last one written stays
    return firsts


def _at(values: Int, places: Int, absent: int) -> Int:
    """The values at *places*, *absent* where that is -1."""
    values_at: Int = np.append(values, np.int32(absent))[places]
    return values_at


def _picked(column: Coded[_T], places: NDArray[Any], absent: _T) -> Coded[_T]:
    """The values of a column at *places*, *absent* where that is -1."""
    codes = np.append(column.codes.astype(np.int32), len(column.values))[places]
    return Coded.joined([Coded(codes, (*column.values, absent))])


def _chosen(where: Bool, column: Coded[_T], other: Coded[_T]) -> Coded[_T]:
    """The values of *column* in the rows *where*, those of *other* elsewhere."""
    first = len(column.values)
    codes = np.where(where, column.codes.astype(np.int32), other.codes.astype(np.int32) + first)
    return Coded.joined([Coded(codes, (*column.values, *other.values))])


def _originals(listed: ListedOps, side: Side, names: _Names) -> Lists:
    """The partners of each op, or what its graph says it was made of."""
    partners, named = listed.partners, listed.original_names
    names.partners(partners.names)
    linked = np.diff(partners.start)
    by_name = (linked == 0) & (side is Side.DEVICE)
    counts = np.where(by_name, np.diff(named.start), linked)
    numbers, is_named = np.zeros(int(counts.sum()), np.int32), np.repeat(by_name, counts)
    numbers[~is_named] = partners.numbers
    codes = named.numbers[np.repeat(by_name, np.diff(named.start))]
    if len(codes):
        used, places = np.unique(codes, return_inverse=True)
        own_codes = names.numbers(named.names[number] for number in used.tolist())
        numbers[is_named] = own_codes[places.reshape(-1)]
    return Lists(starts(counts), numbers, ())


def _joined(
    slices: Sequence[OpColumns],
    side: Side,
    ids: tuple[Sequence[str], Mapping[str, int]],
    names: _Names,
) -> OpColumns:
    """The columns of all slices; *ids* are those of the ops, and their places."""
    parts: dict[str, Any] = {"side": side, "ids": ids[0], "number": ids[1]}
    for field in fields(OpColumns):
        if field.name in parts:
            continue
        values = [getattr(columns, field.name) for columns in slices]
        if field.name in ("measured", "judged"):
            parts[field.name] = places_of(np.concatenate(values) >= 0)
        elif isinstance(values[0], np.ndarray):
            parts[field.name] = np.concatenate(values)
        else:
            parts[field.name] = type(values[0]).joined(values)
    originals = replace(parts["originals"], names=names.all)
    return OpColumns(**parts | {"originals": originals})
