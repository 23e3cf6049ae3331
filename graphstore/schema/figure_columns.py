"""The figures of tensor pairs as columns of the table Metric, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

from graphstore.model import Comparison, Figures, MetricSet, SideFigures
from graphstore.schema.codec import declared, plain_texts
from graphstore.schema.double_columns import DoubleColumns, integers, others, places
from graphstore.schema.row_slices import Columns, ColumnValues
from graphstore.schema.tables import (
    FIGURE_COLUMNS,
    FINITE_COLUMNS,
    SIDES,
    SPREAD_COLUMNS,
    ColumnType,
)


def figure_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns FIGURE_COLUMNS of a slice of the comparisons."""
    where, known = places(item.figures for item in items)
    metrics = [items[row].metrics for row in where.tolist()]
    columns: list[ColumnValues] = []
    for column in FIGURE_COLUMNS:
        values = list(map(attrgetter(_path(column.name)), known))
        if column.name in FINITE_COLUMNS:
            values = _other_than(values, metrics, SPREAD_COLUMNS.index(FINITE_COLUMNS[column.name]))
        if column.type is ColumnType.DOUBLE:
            columns.append(doubles.column(column.name, where, values))
        elif column.type is ColumnType.INT64:
            columns.append(integers(len(items), where, values))
        else:
            columns.append(
                others(len(items), where, plain_texts([text or None for text in values]))
            )
    return columns


def figures_values(columns: Mapping[str, Sequence[Any]]) -> list[Figures | None]:
    """The figures of many Metric rows, given column by column (NaN in place)."""
    there = [bad is not None for bad in columns["bad"]]
    if not any(there):
        return [None] * len(there)
    known = {column.name: list(compress(columns[column.name], there)) for column in FIGURE_COLUMNS}
    for name, usual in FINITE_COLUMNS.items():
        others = compress(columns[usual], there)
        known[name] = [
            other if one is None else one for one, other in zip(known[name], others, strict=True)
        ]
    known["where_bad"] = [text or "" for text in known["where_bad"]]
    parts: list[Iterable[Any]] = []
    for name in declared(Figures):
        if name in SIDES:
            own = (values for column, values in known.items() if column.startswith(f"{name}_"))
            parts.append(map(SideFigures, *own))
        else:
            parts.append(known[name])
    made = map(Figures, *parts)
    return [next(made) if one else None for one in there]


def _path(column: str) -> str:
    """Where a column's value is in the figures."""
    side, _, name = column.partition("_")
    return f"{side}.{name.removeprefix('finite_')}" if side in SIDES else column


def _other_than(
    values: Sequence[float], metrics: Sequence[MetricSet | None], part: int
) -> list[float | None]:
    return [
        None if one is not None and _is_same(value, one.standard_deviation[part]) else value
        for value, one in zip(values, metrics, strict=True)
    ]


def _is_same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)
