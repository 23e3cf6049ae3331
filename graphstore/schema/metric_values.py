"""The comparisons behind the rows of the table Metric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields
from enum import Enum
from itertools import compress, repeat
from typing import Any, TypeAlias, get_args

from graphstore.model import Comparison, Metric, MetricSet, TensorRef
from graphstore.schema import codec
from graphstore.schema.record_columns import figures_values, split_values, with_nan
from graphstore.schema.tables import METRIC_SET_COLUMNS, SPREAD_COLUMNS

MetricColumns: TypeAlias = Mapping[str, Sequence[Any]]
"""The values of Metric rows by column."""
_METRICS = {metric.value: metric for metric in Metric}


def comparison_values(columns: MetricColumns) -> list[Comparison]:
    """The comparisons behind many Metric rows, given column by column.

    Fields whose columns were not asked for are left at their defaults.
    """
    columns = with_nan(columns)
    return list(map(Comparison, *(_values(field, columns) for field in fields(Comparison))))


def _values(field: Field[Any], columns: MetricColumns) -> Iterable[Any]:
    """The values of a field of the comparisons; hundreds of thousands, so not one by one."""
    column = _COLUMN_OF.get(field.name, field.name)
    if column not in columns:
        return repeat(field.default)
    if field.name in _WHOLE:
        return _WHOLE[field.name](columns)
    if field.name in _CHOICES:
        return map(_CHOICES[field.name].__getitem__, columns[column])
    values = columns[column]
    return [text or "" for text in values] if field.default == "" else values


def _refs(columns: MetricColumns) -> Iterable[TensorRef | None]:
    refs = zip(columns["golden_op"], columns["golden_port"], strict=True)
    return [None if op is None else TensorRef(op, port) for op, port in refs]


def _failed(columns: MetricColumns) -> Iterable[tuple[Metric, ...]]:
    return [tuple(map(_METRICS.__getitem__, names or ())) for names in columns["failed"]]


def _addresses(columns: MetricColumns) -> Iterable[int | None]:
    return [None if text is None else int(text, 16) for text in columns["address"]]


def metrics_of(columns: MetricColumns) -> list[MetricSet | None]:
    """The metrics of many Metric rows (NaN in place); None where ``compared`` is false."""
    compared = columns["compared"]
    compressed = {name: list(compress(columns[name], compared)) for name in METRIC_SET_COLUMNS}
    sets = metric_sets(compressed)
    return [next(sets) if one else None for one in compared]


def _notes(text: str | None) -> dict[Metric, str]:
    return {} if text is None else {Metric(name): note for name, note in json.loads(text).items()}


def metric_sets(columns: MetricColumns) -> Iterator[MetricSet]:
    """The metric sets behind the columns METRIC_SET_COLUMNS (NaN in place)."""
    by_field: dict[str, Iterable[Any]] = {
        **columns,
        "standard_deviation": zip(*(columns[name] for name in SPREAD_COLUMNS), strict=True),
        "notes": map(_notes, columns["notes_json"]),
    }
    # By name, handed over in the declared order: hundreds of thousands, so not one by one.
    return map(MetricSet, *(by_field[field.name] for field in fields(MetricSet)))


def choices(kind: Any) -> Mapping[Any, Any]:
    """The members of the enum in a declared type by their values, None for None; else empty."""
    enums = [one for one in (kind, *get_args(kind)) if isinstance(one, type)]
    members = [member for one in enums if issubclass(one, Enum) for member in one]
    return {None: None} | {member.value: member for member in members} if members else {}


_COLUMN_OF = {
    "golden": "golden_op",
    "metrics": "compared",
    "figures": "bad",
    "split": "role",
    "limit": "limit_rule",
}
"""The column that says whether a field was asked for, where it has another name."""
_WHOLE: Mapping[str, Callable[[MetricColumns], Iterable[Any]]] = {
    "golden": _refs,
    "metrics": metrics_of,
    "failed": _failed,
    "shape": lambda columns: map(codec.shape_value, columns["shape"]),
    "address": _addresses,
    "figures": figures_values,
    "split": split_values,
}
_CHOICES = {
    name: values for name, kind in codec.declared(Comparison).items() if (values := choices(kind))
}
