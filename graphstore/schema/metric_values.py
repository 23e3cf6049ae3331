"""The comparisons behind the rows of the table Metric."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
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
from graphstore.schema.figure_columns import figures_value, figures_values
from graphstore.schema.metric_rows import METRIC_SET_COLUMNS
from graphstore.schema.split_columns import split_value, split_values

_IOS = {io.value: io for io in TensorIO}
_LEVELS = {None: None} | {level.value: level for level in Level}
_REASONS = {None: None} | {reason.value: reason for reason in Reason}
_RULES = {None: None} | {rule.value: rule for rule in LineageRule}
_DTYPES = {None: None} | {dtype.value: dtype for dtype in DType}
_METRICS = {metric.value: metric for metric in Metric}


def comparison_values(columns: Mapping[str, Sequence[Any]]) -> list[Comparison]:
    """The comparisons behind many Metric rows, given column by column.

    A hundred thousand rows take a third of the time of :func:`comparison_value` for each.
    """
    refs = zip(columns["golden_op"], columns["golden_port"], strict=True)
    found = list(
        map(
            Comparison,
            columns["op"],
            map(_IOS.__getitem__, columns["io"]),
            columns["port"],
            [None if op is None else TensorRef(op, port) for op, port in refs],
            map(_RULES.__getitem__, columns["rule"]),
            _metrics(columns),
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
    for place, names in enumerate(columns["nan"]):
        if names:
            found[place] = comparison_value({name: of[place] for name, of in columns.items()})
    return found


def _metrics(columns: Mapping[str, Sequence[Any]]) -> Iterable[MetricSet | None]:
    compared = columns["compared"]
    known = [list(compress(columns[name], compared)) for name in METRIC_SET_COLUMNS]
    made = iter(metric_sets(known))
    return [next(made) if one else None for one in compared]


def _notes(text: str | None) -> dict[Metric, str]:
    return {} if text is None else {Metric(name): note for name, note in json.loads(text).items()}


def _texts(texts: Sequence[str | None]) -> list[str]:
    return [text or "" for text in texts]


def comparison_value(row: Mapping[str, Any]) -> Comparison:
    """The comparison behind a Metric row (column name to value)."""
    if row["nan"]:
        row = {**row, **dict.fromkeys(row["nan"], math.nan)}
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
        device_dtype=_DTYPES[row["device_dtype"]],
        golden_dtype=_DTYPES[row["golden_dtype"]],
        device_path=row["device_path"] or "",
        golden_path=row["golden_path"] or "",
        address=None if address is None else int(address, 16),
        overflow=row["overflow"],
        figures=figures_value(row),
        split=split_value(row),
        limit=row["limit_rule"] or "",
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
        _notes(row["notes_json"]),
    )


def metric_sets(columns: Sequence[Sequence[Any]]) -> list[MetricSet]:
    """The metric sets behind the columns METRIC_SET_COLUMNS."""
    known = dict(zip(METRIC_SET_COLUMNS, columns, strict=True))
    spread = ("device_mean", "device_std", "golden_mean", "golden_std")
    sets = list(
        map(
            MetricSet,
            known["cosine_similarity"],
            known["max_absolute_error"],
            known["accumulated_relative_error"],
            known["relative_euclidean_distance"],
            known["kullback_leibler_divergence"],
            zip(*(known[name] for name in spread), strict=True),
            known["mean_absolute_error"],
            known["root_mean_square_error"],
            known["max_relative_error"],
            known["mean_relative_error"],
            known["elements"],
            known["device_nonfinite"],
            known["golden_nonfinite"],
            known["different"],
            map(_notes, known["notes_json"]),
        )
    )
    for place, names in enumerate(known["nan"]):
        if names:
            row = {name: column[place] for name, column in known.items()}
            sets[place] = metric_set_value(row)
    return sets
