"""The rows of the table Metric, and the comparisons behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore import codec
from graphstore.codec import plain_text, plain_texts
from graphstore.contract import RunData
from graphstore.model import (
    Comparison,
    DType,
    Level,
    LineageRule,
    Metric,
    MetricSet,
    OpState,
    Reason,
    TensorIO,
    TensorRef,
)
from graphstore.schema import METRIC_COLUMNS
from graphstore.tables import Columns, ColumnValues, Table

METRIC_SET_COLUMNS = (
    *METRIC_COLUMNS,
    "nan",
    "notes_json",
    "elements",
    "device_nonfinite",
    "golden_nonfinite",
    "different",
)
"""The columns of a Metric row that hold its metric set."""
_SPREAD = ("device_mean", "device_std", "golden_mean", "golden_std")
"""The columns of the standard deviation, in its order."""
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
    origins = {origin.op: origin for origin in reversed(data.origins)}

    def columns(first: int, until: int) -> Columns:
        items = data.comparisons[first:until]
        at = [origins.get(item.op) for item in items]
        refs = [item.golden for item in items]
        return (
            ids[first:until],
            [run] * len(items),
            np.arange(first, until),
            nodes[first:until],
            np.ma.masked_less(tensors[first:until], 0),
            [_WORDS[item.io] for item in items],
            [item.port for item in items],
            [_WORDS[data.states[item.op]] for item in items],
            [_WORDS[item.level] for item in items],
            [item.metrics is not None for item in items],
            [item.over for item in items],
            [None if origin is None else origin.rank for origin in at],
            [None if origin is None else _float(origin.suspicion) for origin in at],
            plain_texts([None if origin is None else origin.cause for origin in at]),
            *_metric_columns([item.metrics for item in items]),
            [[metric.value for metric in item.failed] or None for item in items],
            [
                None if ref is None or known else plain_text(ref.op)
                for ref, known in zip(refs, is_known[first:until].tolist(), strict=True)
            ],
            [None if ref is None else ref.port for ref in refs],
            [_WORDS[item.rule] for item in items],
            [_WORDS[item.reason] for item in items],
            [plain_text(item.detail) if item.detail else None for item in items],
            [codec.shape_text(item.shape) for item in items],
            [_WORDS[item.device_dtype] for item in items],
            [_WORDS[item.golden_dtype] for item in items],
            [plain_text(item.device_path) or None for item in items],
            [plain_text(item.golden_path) or None for item in items],
            [None if item.address is None else hex(item.address) for item in items],
            [item.overflow for item in items],
        )

    return Table(len(data.comparisons), columns)


def comparison_value(row: Mapping[str, Any]) -> Comparison:
    """The comparison behind a Metric row (column name to value)."""
    level, reason, rule = row["level"], row["reason"], row["rule"]
    golden_op, shape, address = row["golden_op"], row["shape"], row["address"]
    return Comparison(
        op=row["op"],
        io=TensorIO(row["io"]),
        port=row["port"],
        golden=None if golden_op is None else TensorRef(golden_op, row["golden_port"]),
        rule=None if rule is None else LineageRule(rule),
        metrics=metric_set_value(row) if row["compared"] else None,
        level=None if level is None else Level(level),
        failed=tuple(Metric(name) for name in row["failed"] or ()),
        reason=None if reason is None else Reason(reason),
        detail=row["detail"] or "",
        shape=codec.shape_value(shape),
        device_dtype=codec.dtype_value(row["device_dtype"]),
        golden_dtype=codec.dtype_value(row["golden_dtype"]),
        device_path=row["device_path"] or "",
        golden_path=row["golden_path"] or "",
        address=None if address is None else int(address, 16),
        overflow=row["overflow"],
    )


def metric_set_value(row: Mapping[str, Any]) -> MetricSet:
    """The metrics behind the columns METRIC_SET_COLUMNS of a Metric row."""
    if row["nan"]:
        row = {**row, **dict.fromkeys(row["nan"], math.nan)}
    return MetricSet(
        row["cosine_similarity"],
        row["max_absolute_error"],
        row["accumulated_relative_error"],
        row["relative_euclidean_distance"],
        row["kullback_leibler_divergence"],
        (row["device_mean"], row["device_std"], row["golden_mean"], row["golden_std"]),
        row["mean_absolute_error"],
        row["root_mean_square_error"],
        row["max_relative_error"],
        row["mean_relative_error"],
        row["elements"],
        row["device_nonfinite"],
        row["golden_nonfinite"],
        row["different"],
        codec.notes_value(row["notes_json"]),
    )


def _metric_columns(sets: Sequence[MetricSet | None]) -> Columns:
    """The columns METRIC_SET_COLUMNS; NaN is None and named in ``nan``."""
    known = [one for one in sets if one is not None]
    where = np.asarray([one is not None for one in sets], dtype=np.bool_)
    columns: list[ColumnValues] = []
    nan = np.zeros((len(METRIC_COLUMNS), len(sets)), dtype=np.bool_)
    for row, name in enumerate(METRIC_COLUMNS):
        if name in _SPREAD:
            part = _SPREAD.index(name)
            numbers = [one.standard_deviation[part] for one in known]
        else:
            numbers = list(map(attrgetter(name), known))
        values = np.full(len(sets), np.nan)
        values[where] = numbers
        absent = np.isnan(values)
        nan[row] = where & absent
        columns.append(np.ma.MaskedArray(values, absent))
    names: list[list[str] | None] = [None] * len(sets)
    for place in np.flatnonzero(nan.any(axis=0)).tolist():
        names[place] = [METRIC_COLUMNS[row] for row in np.flatnonzero(nan[:, place])]
    columns.append(names)
    columns.append([None if one is None else codec.notes_text(one.notes) for one in sets])
    for name in ("elements", "device_nonfinite", "golden_nonfinite", "different"):
        counts = np.zeros(len(sets), dtype=np.int64)
        counts[where] = list(map(attrgetter(name), known))
        columns.append(np.ma.MaskedArray(counts, ~where))
    return columns


def _float(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
