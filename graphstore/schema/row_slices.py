"""Rows of one table, made slice by slice when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded

Row: TypeAlias = tuple[object, ...]
ColumnValues: TypeAlias = Sequence[Any] | NDArray[Any] | Coded[Any]
"""The values of one column; texts and the like as a list, numbers as an array or a list, few
different values as such."""
Columns: TypeAlias = Sequence[ColumnValues]

_SLICE = 10_000


def absent(rows: int) -> Coded[None]:
    """The values of a column that is null in so many rows."""
    return Coded.same(None, rows)


def is_absent(values: ColumnValues) -> bool:
    """Whether all *values* are said to be null."""
    return isinstance(values, Coded) and all(value is None for value in values.values)


class Table(Sequence[Row]):
    """A sized, sliceable sequence of row tuples that keeps no rows.

    ``columns(first, until)`` gives the columns of the rows from *first* to before *until*.
    """

    def __init__(self, size: int, columns: Callable[[int, int], Columns]) -> None:
        self._size = size
        self._columns = columns

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Table:
        """The table of a few *rows*."""
        row_list = list(rows)

        def columns(first: int, until: int) -> Columns:
            return list(zip(*row_list[first:until], strict=True))

        return cls(len(row_list), columns)

    @classmethod
    def joined(cls, parts: Sequence[Table]) -> Table:
        """All rows of *parts*, one after the other."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([len(part) for part in parts]).tolist()

        def columns(first: int, until: int) -> Columns:
            slices = []
            for part, end in zip(parts, ends, strict=True):
                begin = end - len(part)
                low, high = max(first, begin), min(until, end)
                if low < high:
                    slices.append(part.columns(low - begin, high - begin))
            if len(slices) == 1:
                return slices[0]
            return [_joined(same) for same in zip(*slices, strict=True)]

        return cls(ends[-1] if ends else 0, columns)

    def columns(self, first: int, until: int) -> Columns:
        """The columns of the rows *first* to before *until*; [] if there are none."""
        until = min(until, self._size)
        return self._columns(first, until) if first < until else []

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Row]:
        for first in range(0, self._size, _SLICE):
            yield from self._rows(first, first + _SLICE)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            first, until, step = place.indices(self._size)
            if step == 1:
                return list(self._rows(first, until))
            return [self[number] for number in range(first, until, step)]
        number = range(self._size)[place]
        return next(self._rows(number, number + 1))

    def _rows(self, first: int, until: int) -> Iterator[Row]:
        return zip(*map(plain_values, self.columns(first, until)), strict=True)


def plain_values(values: ColumnValues) -> Sequence[Any]:
    """The values of a column as Python's own."""
    if isinstance(values, np.ndarray):
        numbers: list[Any] = values.tolist()
        return numbers
    return list(values) if isinstance(values, Coded) else values


def columns_table(columns: Sequence[NDArray[Any]]) -> Table:
    """The table of whole columns of numbers."""
    return Table(len(columns[0]), lambda first, until: [one[first:until] for one in columns])


def _joined(parts: Sequence[ColumnValues]) -> ColumnValues:
    """The values of a column, of one slice after the other."""
    return [value for values in parts for value in plain_values(values)]


# A row has one value per column of its table in :mod:`graphstore.schema.tables`, in order; a
# relationship row starts with the ids of its two ends. Rows are made slice by slice.


@dataclass
class Records:
    """Rows by node label and by relationship type."""

    nodes: dict[str, Sequence[Row]] = field(default_factory=dict)
    rels: dict[str, Sequence[Row]] = field(default_factory=dict)


def as_table(rows: Sequence[Row]) -> Table:
    """*rows* as a table, which they may be already."""
    return rows if isinstance(rows, Table) else Table.of(rows)
