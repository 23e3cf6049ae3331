"""Columns of doubles as both stores keep them: NaN is null, and said in another column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.schema.row_slices import Absent, ColumnValues


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
            return Absent(self._rows)
        known = np.asarray(numbers, dtype=np.float64)
        for place in np.flatnonzero(np.isnan(known)).tolist():
            if numbers[place] is not None:  # which is an absent number, and NaN by now
                self._names.setdefault(int(where[place]), []).append(name)
        values = np.full(self._rows, np.nan)
        values[where] = known
        return np.ma.MaskedArray(values, np.isnan(values))

    def nan(self) -> list[list[str] | None]:
        """For each row the names of its columns that are NaN, or None."""
        return [self._names.get(row) for row in range(self._rows)]


def with_nan(columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
    """*columns* as they were given, NaN where the column ``nan`` says so."""
    found: dict[str, list[Any]] = {}
    for row, names in enumerate(columns["nan"]):
        for name in names or ():
            if name in columns:
                found.setdefault(name, list(columns[name]))[row] = math.nan
    return {**columns, **found} if found else columns


def places(values: Iterable[Any]) -> tuple[NDArray[np.int64], list[Any]]:
    """(rows, values) of those *values* that are not None."""
    found = [(row, value) for row, value in enumerate(values) if value is not None]
    return np.asarray([row for row, _ in found], dtype=np.int64), [value for _, value in found]


def integers(rows: int, where: NDArray[np.int64], numbers: Sequence[int]) -> ColumnValues:
    """A column of whole *numbers* in the rows *where*, null in the others."""
    if not len(where):
        return Absent(rows)
    values = np.zeros(rows, dtype=np.int64)
    values[where] = numbers
    absent = np.ones(rows, dtype=np.bool_)
    absent[where] = False
    return np.ma.MaskedArray(values, absent)


def others(rows: int, where: NDArray[np.int64], values: Sequence[Any]) -> ColumnValues:
    """A column of other *values* in the rows *where*, null in the others."""
    if not len(where):
        return Absent(rows)
    column: list[Any] = [None] * rows
    for row, value in zip(where.tolist(), values, strict=True):
        column[row] = value
    return column
