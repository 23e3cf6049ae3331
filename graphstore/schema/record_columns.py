"""Figures and splits of tensor pairs as columns of the table Metric, and back.

NaN is null in a column of doubles, as both stores keep it, and said in another column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import compress, repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.model import Comparison, ErrorSplit, Figures, Guilt, MetricSet, Role, SideFigures
from graphstore.schema.codec import declared, plain_texts
from graphstore.schema.row_slices import Columns, ColumnValues, absent
from graphstore.schema.tables import (
    FIGURE_COLUMNS,
    FINITE_COLUMNS,
    SIDES,
    SPLIT_COLUMNS,
    SPREAD_COLUMNS,
    Column,
    ColumnType,
)


def figure_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns FIGURE_COLUMNS of a slice of the comparisons."""
    where, figures = places(item.figures for item in items)
    metrics = [items[row].metrics for row in where.tolist()]
    columns: list[ColumnValues] = []
    for column in FIGURE_COLUMNS:
        values = list(map(attrgetter(_path(column.name)), figures))
        if column.name in FINITE_COLUMNS:
            values = _other_than(values, metrics, SPREAD_COLUMNS.index(FINITE_COLUMNS[column.name]))
        columns.append(doubles.typed(column, where, values))
    return columns


def figures_values(columns: Mapping[str, Sequence[Any]]) -> list[Figures | None]:
    """The figures of many Metric rows, given column by column (NaN in place)."""
    there = [bad is not None for bad in columns["bad"]]
    if not any(there):
        return [None] * len(there)
    values = {column.name: list(compress(columns[column.name], there)) for column in FIGURE_COLUMNS}
    for name, usual in FINITE_COLUMNS.items():
        others = compress(columns[usual], there)
        values[name] = [
            other if one is None else one for one, other in zip(values[name], others, strict=True)
        ]
    values["where_bad"] = [text or "" for text in values["where_bad"]]
    parts: list[Iterable[Any]] = []
    for name in declared(Figures):
        if name in SIDES:
            own = (values for column, values in values.items() if column.startswith(f"{name}_"))
            parts.append(map(SideFigures, *own))
        else:
            parts.append(values[name])
    figures = map(Figures, *parts)
    return [next(figures) if one else None for one in there]


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


_ENUMS: dict[str, dict[str, Any]] = {
    "role": {role.value: role for role in Role},
    "guilt": {guilt.value: guilt for guilt in Guilt},
}
_TEXTS = {field.name for field in fields(ErrorSplit) if field.default == ""}


def split_columns(items: Sequence[Comparison], doubles: DoubleColumns) -> Columns:
    """The columns SPLIT_COLUMNS of a slice of the comparisons."""
    where, splits = places(item.split for item in items)
    columns: list[ColumnValues] = []
    for column in SPLIT_COLUMNS:
        if column.name == "split_group":
            rows = zip(where.tolist(), splits, strict=True)
            values: list[Any] = [_group_of(items[row], split.group) for row, split in rows]
        else:
            own = f"{column.name}.value" if column.name in _ENUMS else column.name
            values = list(map(attrgetter(own), splits))
        columns.append(doubles.typed(column, where, values))
    return columns


def split_values(columns: Mapping[str, Sequence[Any]]) -> list[ErrorSplit | None]:
    """The splits of many Metric rows, given column by column (NaN in place).

    ``golden_op`` is the golden op a tensor is held against. Columns that were not asked for
    leave their field at its default.
    """
    there = [role is not None for role in columns["role"]]
    if not any(there):
        return [None] * len(there)

    def values(name: str, default: object) -> Iterable[Any]:
        column = "split_group" if name == "group" else name
        if column not in columns:
            return repeat(default)
        present = compress(columns[column], there)
        if name == "group":
            ops = compress(columns["golden_op"], there)
            return (
                (op,) if group is None else tuple(group)
                for op, group in zip(ops, present, strict=True)
            )
        if name in _ENUMS:
            return map(_ENUMS[name].__getitem__, present)
        return (text or "" for text in present) if name in _TEXTS else present

    splits = map(ErrorSplit, *(values(field.name, field.default) for field in fields(ErrorSplit)))
    return [next(splits) if one else None for one in there]


def _group_of(item: Comparison, group: tuple[str, ...]) -> list[str | None] | None:
    if item.golden is not None and group == (item.golden.op,):
        return None
    return list(plain_texts(group))


class DoubleColumns:
    """Makes the double columns of some rows, and then the column that names what is NaN."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._names: dict[int, list[str]] = {}

    def column(
        self, name: str, where: NDArray[np.int64], numbers: Sequence[float | None]
    ) -> ColumnValues:
        """The column *name*: *numbers* in the rows *where*, null in the others."""
        if not len(where):
            return absent(self._rows)
        doubles = np.asarray(numbers, dtype=np.float64)
        for place in np.flatnonzero(np.isnan(doubles)).tolist():
            if numbers[place] is not None:  # which is an absent number, and NaN by now
                self._names.setdefault(int(where[place]), []).append(name)
        values = np.full(self._rows, np.nan)
        values[where] = doubles
        return np.ma.MaskedArray(values, np.isnan(values))

    def typed(
        self, column: Column, where: NDArray[np.int64], values: Sequence[Any]
    ) -> ColumnValues:
        """A *column* of any type: *values* in the rows *where*, null in the others and for ""."""
        if column.type is ColumnType.DOUBLE:
            return self.column(column.name, where, values)
        if column.type is ColumnType.INT64:
            return integers(self._rows, where, values)
        if column.type is ColumnType.STRING:
            values = plain_texts([text or None for text in values])
        if not len(where):
            return absent(self._rows)
        values_by_row: list[Any] = [None] * self._rows
        for row, value in zip(where.tolist(), values, strict=True):
            values_by_row[row] = value
        return values_by_row

    def nan(self) -> list[list[str] | None]:
        """For each row the names of its columns that are NaN, or None."""
        return [self._names.get(row) for row in range(self._rows)]


def with_nan(columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """*columns* as they were given, NaN where the column ``nan`` says so."""
    filled: dict[str, list[Any]] = {}
    for row, names in enumerate(columns["nan"]):
        for name in names or ():
            if name in columns:
                filled.setdefault(name, list(columns[name]))[row] = math.nan
    return {**columns, **filled} if filled else columns


def places(values: Iterable[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """(rows, values) of those *values* that are not None."""
    listed = list(values)
    rows = [row for row, value in enumerate(listed) if value is not None]
    if len(rows) < len(listed):
        listed = [listed[row] for row in rows]
    return np.asarray(rows, dtype=np.int64), listed


def integers(rows: int, where: NDArray[np.int64], numbers: Sequence[int]) -> ColumnValues:
    """A column of whole *numbers* in the rows *where*, null in the others."""
    if not len(where):
        return absent(rows)
    values = np.zeros(rows, dtype=np.int64)
    values[where] = numbers
    is_null = np.ones(rows, dtype=np.bool_)
    is_null[where] = False
    return np.ma.MaskedArray(values, is_null)
