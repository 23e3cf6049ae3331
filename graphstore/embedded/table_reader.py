"""Rows and columns of the tables of an entry, as few of them as are asked for.

Of a file only those groups of rows are read whose least and greatest values allow for what is
wanted, and of these only the columns asked for. What was read is kept for a while.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphstore.cypher import arrow_columns as arrow
from graphstore.embedded.arrow_rows import arrow_types, table_columns
from graphstore.embedded.table_files import TableFiles
from graphstore.errors import StoreError
from graphstore.recent import Recent

Rows: TypeAlias = NDArray[np.int64]
Bound: TypeAlias = tuple[str, str, int]
"""A column, ``<``, ``<=``, ``>``, ``>=`` or ``=``, and a number."""

_MOST_KEPT = 2**26
"""Bytes of columns kept for the next question."""


class TableReader:
    """Reads the tables that *files* says; for all threads."""

    def __init__(self, files: TableFiles) -> None:
        self._files = files
        self._lock = threading.RLock()
        self._tables: dict[str, _Table | None] = {}
        self._kept: Recent[Any] = Recent(1, _MOST_KEPT, lambda values: int(values.nbytes))

    def size(self, table: str) -> int:
        """How many rows a table has."""
        opened = self._table(table)
        return 0 if opened is None else int(opened.starts[-1])

    def column(self, table: str, column: str, rows: Rows | None = None) -> Any:
        """The values of a column in these *rows*, all without them; -1 is a row of nulls."""
        import pyarrow as pa

        opened = self._table(table)
        if opened is None or column not in opened.names:
            size = self.size(table) if rows is None else len(rows)
            return pa.nulls(size, _type(table, column))
        if rows is None:
            return self._joined(opened, column, range(opened.groups))
        groups, places = opened.placed(rows)
        values = self._joined(opened, column, groups)
        if len(rows) == len(values) and np.array_equal(places, np.arange(len(places))):
            return values
        return values.take(arrow.array_of(places, places < 0))

    def rows(
        self, table: str, bounds: Sequence[Bound], keep: Callable[[Callable[[str], Any]], Any]
    ) -> Rows:
        """The rows of which *keep* is true: it is given, group by group, what reads a column."""
        opened = self._table(table)
        kept: list[Rows] = []
        for group in [] if opened is None else opened.groups_within(bounds):
            assert opened is not None
            fits = keep(lambda name, at=group: self._values(opened, name, at))  # type: ignore[misc]
            start, end = (int(n) for n in opened.starts[group : group + 2])
            if fits is None:
                kept.append(np.arange(start, end))
            else:
                kept.append(start + np.flatnonzero(fits))
        return np.concatenate(kept) if kept else np.zeros(0, np.int64)

    def matching(self, table: str, column: str, keys: NDArray[np.int64]) -> tuple[Rows, Rows]:
        """Pairs of a place in *keys* and a row whose *column* has that key, by row."""
        opened = self._table(table)
        if opened is None or column not in opened.names or not len(keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        order: Any = slice(None)
        if np.any(keys[1:] < keys[:-1]):
            order = np.argsort(keys, kind="stable")
        listed = keys[order]
        places, rows = [], []
        bounds = ((column, ">=", int(listed[0])), (column, "<=", int(listed[-1])))
        for group in opened.groups_within(bounds):
            values = arrow.integers(self._values(opened, column, group), absent=-1)
            low = np.searchsorted(listed, values)
            counts = np.searchsorted(listed, values, "right") - low
            row = np.repeat(np.arange(len(values)), counts)
            first = np.repeat(np.cumsum(counts) - counts, counts)
            places.append(np.repeat(low, counts) + np.arange(len(row)) - first)
            rows.append(int(opened.starts[group]) + row)
        if not places:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.concatenate(places)
        return (at if isinstance(order, slice) else order[at]), np.concatenate(rows)

    def _table(self, name: str) -> _Table | None:
        with self._lock:
            path = self._files.path(name)
            if name not in self._tables:
                self._tables[name] = None if path is None else _Table(name, path)
            return self._tables[name]

    def _joined(self, table: _Table, column: str, groups: Sequence[int]) -> Any:
        import pyarrow as pa

        parts = [self._values(table, column, group) for group in groups]
        kind = _type(table.name, column) if not parts else parts[0].type
        if pa.types.is_dictionary(kind) and len(parts) > 1:
            return pa.chunked_array(parts, kind).unify_dictionaries().combine_chunks()
        return parts[0] if len(parts) == 1 else pa.chunked_array(parts, kind).combine_chunks()

    def _values(self, table: _Table, column: str, group: int) -> Any:
        import pyarrow as pa

        if column not in table.names:
            return pa.nulls(int(np.diff(table.starts)[group]), _type(table.name, column))

        def read() -> Any:
            with self._lock:
                values = table.file.read_row_group(group, [column], use_threads=False)[column]
            return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()

        return self._kept.get(f"{table.name} {group} {column}", read)


class _Table:
    """The opened file at *path* of the table *name*, and where its groups of rows start."""

    def __init__(self, name: str, path: Path) -> None:
        from pyarrow.parquet import ParquetFile

        try:
            self.file = ParquetFile(path, memory_map=False)
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot be read: {error}", where=str(path)) from error
        self.name = name
        metadata = self.file.metadata
        self.groups: int = metadata.num_row_groups
        sizes = [metadata.row_group(group).num_rows for group in range(self.groups)]
        self.starts = np.cumsum([0, *sizes])
        self.names = frozenset(self.file.schema_arrow.names)

    def placed(self, rows: Rows) -> tuple[Sequence[int], Rows]:
        """The groups of *rows*, and where these are when only those are read; -1 stays -1."""
        group = np.searchsorted(self.starts, rows, "right") - 1
        is_needed = np.bincount(group + 1, minlength=self.groups + 1)[1:] > 0
        sizes = np.where(is_needed, np.diff(self.starts), 0)
        begin = np.cumsum(sizes) - sizes - self.starts[:-1]
        places: Rows = np.where(rows < 0, -1, rows + begin[group])
        return np.flatnonzero(is_needed).tolist(), places

    def groups_within(self, bounds: Sequence[Bound]) -> Iterator[int]:
        """The groups that may have rows within *bounds*."""
        for group in range(self.groups):
            ranges = self._ranges.get
            if all(_allows(ranges((group, column)), sign, of) for column, sign, of in bounds):
                yield group

    @cached_property
    def _ranges(self) -> Mapping[tuple[int, str], tuple[int, int]]:
        """The least and the greatest value of the numbers of each group."""
        ranges = {}
        for group in range(self.groups):
            about = self.file.metadata.row_group(group)
            for at in range(about.num_columns):
                column = about.column(at)
                facts = column.statistics
                if facts is not None and facts.has_min_max and isinstance(facts.min, int):
                    ranges[group, column.path_in_schema] = facts.min, facts.max
        return ranges


def _allows(ends: tuple[int, int] | None, sign: str, number: int) -> bool:
    if ends is None:
        return True
    low, high = ends
    if sign == "=":
        return low <= number <= high
    if sign.startswith("<"):
        return low < number or (sign == "<=" and low == number)
    return high > number or (sign == ">=" and high == number)


def _type(table: str, column: str) -> Any:
    kinds = {one.name: one.type for one in table_columns(table)}
    return arrow_types()[kinds[column]]
