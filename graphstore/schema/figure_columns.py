"""The figures of tensor pairs as columns of the table Metric, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import compress
from operator import attrgetter
from typing import Any

from graphstore.model import Comparison, Figures, MetricSet, SideFigures
from graphstore.schema.codec import plain_texts
from graphstore.schema.double_columns import DoubleColumns, integers, others, places
from graphstore.schema.row_slices import Columns, ColumnValues
from graphstore.schema.tables import FIGURE_COLUMNS, ColumnType

_SIDES = ("device", "golden")
_REST = [field.name for field in fields(Figures) if field.name not in (*_SIDES, "where_bad")]
_FINITE = {f"{side}_finite_{name}": f"{side}_{name}" for side in _SIDES for name in ("mean", "std")}
"""Columns that are null where the values of all elements, in the others, are the same."""
_SPREAD = ("device_mean", "device_std", "golden_mean", "golden_std")


def figure_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns FIGURE_COLUMNS of a slice of the comparisons."""
    where, known = places(item.figures for item in items)
    metrics = [items[row].metrics for row in where.tolist()]
    columns: list[ColumnValues] = []
    for column in FIGURE_COLUMNS:
        values = list(map(attrgetter(_path(column.name)), known))
        if column.name in _FINITE:
            values = _other_than(values, metrics, _SPREAD.index(_FINITE[column.name]))
        if column.type is ColumnType.DOUBLE:
            columns.append(doubles.column(column.name, where, values))
        elif column.type is ColumnType.INT64:
            columns.append(integers(len(items), where, values))
        else:
            columns.append(
                others(len(items), where, plain_texts([text or None for text in values]))
            )
    return columns


def figures_value(row: Mapping[str, Any]) -> Figures | None:
    """The figures of a Metric row (NaN already in place), None if it has none."""
    if row["bad"] is None:
        return None
    device, golden = (
        SideFigures(
            *(row[f"{side}_{name}"] for name in ("low", "high")),
            *(_finite(row, f"{side}_finite_{name}") for name in ("mean", "std")),
            *(row[f"{side}_{name}"] for name in ("zeros", "nans", "infinities")),
        )
        for side in _SIDES
    )
    rest = {name: row[name] for name in _REST}
    return Figures(device, golden, **rest, where_bad=row["where_bad"] or "")


def figures_values(columns: Mapping[str, Sequence[Any]]) -> list[Figures | None]:
    """The figures of many Metric rows, given column by column; none of them is NaN."""
    there = [bad is not None for bad in columns["bad"]]
    if not any(there):
        return [None] * len(there)

    def known(name: str) -> list[Any]:
        return list(compress(columns[name], there))

    def finite(name: str) -> list[Any]:
        others = known(_FINITE[name])
        return [
            other if one is None else one for one, other in zip(known(name), others, strict=True)
        ]

    sides = [
        map(
            SideFigures,
            *(known(f"{side}_{name}") for name in ("low", "high")),
            *(finite(f"{side}_finite_{name}") for name in ("mean", "std")),
            *(known(f"{side}_{name}") for name in ("zeros", "nans", "infinities")),
        )
        for side in _SIDES
    ]
    where = [text or "" for text in known("where_bad")]
    made = map(Figures, *sides, *map(known, _REST), where)
    return [next(made) if one else None for one in there]


def _path(column: str) -> str:
    """Where a column's value is in the figures."""
    side, _, name = column.partition("_")
    return f"{side}.{name.removeprefix('finite_')}" if side in _SIDES else column


def _other_than(
    values: Sequence[float], metrics: Sequence[MetricSet | None], part: int
) -> list[float | None]:
    return [
        None if one is not None and _is_same(value, one.standard_deviation[part]) else value
        for value, one in zip(values, metrics, strict=True)
    ]


def _is_same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def _finite(row: Mapping[str, Any], name: str) -> Any:
    return row[_FINITE[name]] if row[name] is None else row[name]
