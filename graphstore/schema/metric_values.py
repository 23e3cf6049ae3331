"""The comparisons behind the rows of the table Metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from graphstore.model import (
    Comparison,
    DType,
    Level,
    LineageRule,
    Metric,
    MetricSet,
    Reason,
    TensorIO,
    TensorRef,
)
from graphstore.schema import codec
from graphstore.schema.double_columns import with_nan
from graphstore.schema.figure_columns import figures_values
from graphstore.schema.split_columns import split_values
from graphstore.schema.tables import COUNT_COLUMNS, METRIC_SET_COLUMNS, SPREAD_COLUMNS

_IOS = {io.value: io for io in TensorIO}
_LEVELS = {None: None} | {level.value: level for level in Level}
_REASONS = {None: None} | {reason.value: reason for reason in Reason}
_RULES = {None: None} | {rule.value: rule for rule in LineageRule}
_DTYPES = {None: None} | {dtype.value: dtype for dtype in DType}
_METRICS = {metric.value: metric for metric in Metric}


def comparison_values(columns: Mapping[str, Sequence[Any]]) -> list[Comparison]:
    """The comparisons behind many Metric rows, given column by column."""
    columns = with_nan(columns)
    refs = zip(columns["golden_op"], columns["golden_port"], strict=True)
    return list(
        map(
            Comparison,
            columns["op"],
            map(_IOS.__getitem__, columns["io"]),
            columns["port"],
            [None if op is None else TensorRef(op, port) for op, port in refs],
            map(_RULES.__getitem__, columns["rule"]),
            metrics_of(columns),
            map(_LEVELS.__getitem__, columns["level"]),
            [tuple(map(_METRICS.__getitem__, names or ())) for names in columns["failed"]],
            map(_REASONS.__getitem__, columns["reason"]),
            _texts(columns["detail"]),
            map(codec.shape_value, columns["shape"]),
            map(_DTYPES.__getitem__, columns["device_dtype"]),
            map(_DTYPES.__getitem__, columns["golden_dtype"]),
            _texts(columns["device_path"]),
            _texts(columns["golden_path"]),
            [None if text is None else int(text, 16) for text in columns["address"]],
            columns["overflow"],
            figures_values(columns),
            split_values(columns),
            _texts(columns["limit_rule"]),
        )
    )


def metrics_of(columns: Mapping[str, Sequence[Any]]) -> list[MetricSet | None]:
    """The metrics of many Metric rows (NaN in place); None where ``compared`` is false."""
    compared = columns["compared"]
    known = {name: list(compress(columns[name], compared)) for name in METRIC_SET_COLUMNS}
    made = metric_sets(known)
    return [next(made) if one else None for one in compared]


def _notes(text: str | None) -> dict[Metric, str]:
    return {} if text is None else {Metric(name): note for name, note in json.loads(text).items()}


def _texts(texts: Sequence[str | None]) -> list[str]:
    return [text or "" for text in texts]


def metric_sets(columns: Mapping[str, Sequence[Any]]) -> Iterator[MetricSet]:
    """The metric sets behind the columns METRIC_SET_COLUMNS (NaN in place)."""
    spread = zip(*(columns[name] for name in SPREAD_COLUMNS), strict=True)
    return map(
        MetricSet,
        *(spread if each is Metric.STANDARD_DEVIATION else columns[each] for each in Metric),
        *(columns[name] for name in COUNT_COLUMNS),
        map(_notes, columns["notes_json"]),
    )
