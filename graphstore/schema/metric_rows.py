"""The rows of the table Metric, and the comparisons behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DType,
    Level,
    LineageRule,
    Metric,
    MetricSet,
    OpState,
    Origin,
    Reason,
    TensorIO,
)
from graphstore.schema import codec
from graphstore.schema.codec import plain_text, plain_texts
from graphstore.schema.record_columns import (
    DoubleColumns,
    figure_columns,
    integers,
    places,
    split_columns,
)
from graphstore.schema.row_slices import Columns, ColumnValues, Table
from graphstore.schema.tables import COUNT_COLUMNS, METRIC_COLUMNS, SPREAD_COLUMNS

_WORDS: dict[object, str | None] = {None: None} | {
    word: word.value
    for words in (TensorIO, OpState, Level, LineageRule, Reason, DType)
    for word in words
}


def metric_table(
    data: RunData,
    is_known: NDArray[np.bool_],
    run: str,
    ids: NDArray[np.int64],
    nodes: NDArray[np.int64],
    tensors: NDArray[np.int64],
) -> Table:
    """One row a comparison; *ids* are its node ids, *nodes* those of its ops.

    *is_known* says of each whether its golden op is in the golden graph, *tensors* are the
    ids of the compared outputs, -1 where there is none.
    """
    ranks = {origin.op: origin.rank for origin in reversed(data.origins)}
    blamed = {one.op: one for one in (*reversed(data.suspects), *reversed(data.origins))}

    def columns(first: int, until: int) -> Columns:
        items = data.comparisons[first:until]
        why = [blamed.get(item.op) for item in items]
        refs = [item.golden for item in items]
        doubles = DoubleColumns(len(items))
        suspicions = places(map(_suspicion, items, why))
        suspicion = doubles.column("suspicion", *suspicions)
        metrics = _metric_columns([item.metrics for item in items], doubles)
        splits = split_columns(items, doubles)
        figures = figure_columns(items, doubles)
        return (
            ids[first:until],
            Coded.same(run, len(items)),
            np.arange(first, until),
            nodes[first:until],
            np.ma.masked_less(tensors[first:until], 0),
            [_WORDS[item.io] for item in items],
            [item.port for item in items],
            [_WORDS[data.states[item.op]] for item in items],
            [_WORDS[item.level] for item in items],
            [item.metrics is not None for item in items],
            [item.over for item in items],
            [ranks.get(one.op) if one else None for one in why],
            suspicion,
            plain_texts([None if one is None else one.cause for one in why]),
            *metrics[: len(METRIC_COLUMNS)],
            doubles.nan(),
            *metrics[len(METRIC_COLUMNS) :],
            [[metric.value for metric in item.failed] or None for item in items],
            [
                None if ref is None or in_golden else plain_text(ref.op)
                for ref, in_golden in zip(refs, is_known[first:until].tolist(), strict=True)
            ],
            [None if ref is None else ref.port for ref in refs],
            [_WORDS[item.rule] for item in items],
            [_WORDS[item.reason] for item in items],
            plain_texts([item.detail or None for item in items]),
            [codec.shape_text(item.shape) for item in items],
            [_WORDS[item.device_dtype] for item in items],
            [_WORDS[item.golden_dtype] for item in items],
            plain_texts([item.device_path or None for item in items]),
            plain_texts([item.golden_path or None for item in items]),
            [None if item.address is None else hex(item.address) for item in items],
            [item.overflow for item in items],
            *splits,
            plain_texts([item.limit or None for item in items]),
            *figures,
        )

    return Table(len(data.comparisons), columns)


def _notes_text(notes: Mapping[Metric, str]) -> str | None:
    return codec.dumps(notes) if notes else None


def _suspicion(item: Comparison, blamed: Origin | None) -> float | None:
    """That of the tensor; where its error was not split, that of its op."""
    if item.split is not None:
        return item.split.suspicion
    return None if blamed is None else blamed.suspicion


def _metric_columns(sets: Sequence[MetricSet | None], doubles: DoubleColumns) -> Columns:
    """The columns METRIC_SET_COLUMNS without ``nan``."""
    where, present = places(sets)
    columns: list[ColumnValues] = []
    for name in METRIC_COLUMNS:
        if name in SPREAD_COLUMNS:
            part = SPREAD_COLUMNS.index(name)
            numbers = [one.standard_deviation[part] for one in present]
        else:
            numbers = list(map(attrgetter(name), present))
        columns.append(doubles.column(name, where, numbers))
    columns.append([None if one is None else _notes_text(one.notes) for one in sets])
    columns += [
        integers(len(sets), where, list(map(attrgetter(name), present))) for name in COUNT_COLUMNS
    ]
    return columns
