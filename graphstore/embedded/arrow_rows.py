"""Rows made into Arrow tables, in as few bytes as they take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from graphstore.columns.coded import Coded
from graphstore.schema.row_slices import Records, Row, Table, as_table, is_absent
from graphstore.schema.tables import NODES, RELS, Column, ColumnType

_BATCH = 50_000
"""Rows made into Arrow at once."""
_SAMPLE = 1000
"""So many texts say whether those of a column come again and again."""


def arrow_types() -> dict[ColumnType, Any]:
    """The Arrow type of each type of column."""
    import pyarrow as pa

    return {
        ColumnType.STRING: pa.string(),
        ColumnType.INT64: pa.int64(),
        ColumnType.DOUBLE: pa.float64(),
        ColumnType.BOOL: pa.bool_(),
        ColumnType.STRINGS: pa.list_(pa.string()),
        ColumnType.INTS: pa.list_(pa.int64()),
        ColumnType.BYTES: pa.binary(),
    }


def table_columns(name: str) -> tuple[Column, ...]:
    """The columns of a label, or of a relationship type with those of its ends."""
    for node in NODES:
        if node.label == name:
            return node.columns
    rel = next(rel for rel in RELS if rel.type == name)
    ends = (("from", rel.source), ("to", rel.target))
    keys = (Column(end, table_columns(label)[0].type) for end, label in ends)
    return (*keys, *rel.columns)


def arrow_tables(records: Records) -> Iterator[tuple[str, Any]]:
    """(name, Arrow table or None) of each table of *records*, whose rows are taken out."""
    for rows_of in (records.nodes, records.rels):
        for name in list(rows_of):
            rows = rows_of.pop(name)
            if not isinstance(rows, ArrowRows):
                arrow_rows = ArrowRows(table_columns(name))
                arrow_rows.add(as_table(rows))
                rows = arrow_rows
            yield name, rows.table()


class ArrowRows(Sequence[Row]):
    """Rows of one table made into Arrow as they come: there in far less memory than as values."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        # Arrow arrays, or how many rows are null
        self._parts: dict[str, list[Any]] = {column.name: [] for column in columns}
        self._repeated: dict[str, bool] = {}
        self._size = 0

    def add(self, rows: Table) -> None:
        """More rows."""
        types = arrow_types()
        for first in range(0, len(rows), _BATCH):
            values = rows.columns(first, first + _BATCH)
            for column, column_values in zip(self._columns, values, strict=True):
                kind = types[column.type]
                self._parts[column.name].append(
                    len(column_values)
                    if is_absent(column_values)
                    else _arrow_array(column, kind, column_values, self._repeated)
                )
        self._size += len(rows)

    def table(self) -> Any:
        """The rows, None if there are none; they are here no more.

        Columns of nodes are left out where they have no value at all.
        """
        import pyarrow as pa

        if not self._size:
            return None
        types, is_rel = arrow_types(), self._columns[0].name == "from"
        arrays = {}
        for column in self._columns:
            chunks = self._parts.pop(column.name)
            filled = [chunk for chunk in chunks if not isinstance(chunk, int)]
            if is_rel or any(chunk.null_count < len(chunk) for chunk in filled):
                kind = _common_type({chunk.type for chunk in filled}, types[column.type])
                arrays[column.name] = pa.chunked_array(
                    [
                        pa.nulls(one, kind) if isinstance(one, int) else one.cast(kind)
                        for one in chunks
                    ]
                )
        return pa.table(arrays)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        raise TypeError("these rows are taken as a table")


def _arrow_array(column: Column, kind: Any, values: Any, repeated: dict[str, bool]) -> Any:
    """Values in as few bytes as they take: for a million ops, half of the memory.

    Texts that come again and again are kept once; *repeated* says it of the columns of texts
    that were seen before. The engine widens numbers.
    """
    import pyarrow as pa

    if isinstance(values, Coded) and column.type is ColumnType.STRING:
        repeated.setdefault(column.name, True)
        texts = list(dict.fromkeys(text for text in values.values if text is not None))
        place_of = {text: place for place, text in enumerate(texts)}
        places = np.asarray([place_of.get(text, -1) for text in values.values], dtype=np.int32)
        codes = places[values.codes]
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=codes < 0), pa.array(texts, kind)
        )
    if isinstance(values, Coded):
        return pa.array(values.values, kind).take(pa.array(values.codes))
    array = pa.array(values, kind)
    if column.type is ColumnType.INT64:
        return _narrow(array)
    if column.type is not ColumnType.STRING:
        return array
    if column.name not in repeated:
        repeated[column.name] = _repeats(array)
    return array.dictionary_encode() if repeated[column.name] else array


def _narrow(numbers: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py() or 0, ends["max"].as_py() or 0
    for kind in (pa.int8(), pa.int16(), pa.int32()):
        bound = 2 ** (kind.bit_width - 1)
        if -bound <= low and high < bound:
            return numbers.cast(kind)
    return numbers


def _common_type(kinds: Collection[Any], otherwise: Any) -> Any:
    """The type that holds the values of all *kinds*."""
    import pyarrow as pa

    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds and all(map(pa.types.is_integer, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    return otherwise


def _repeats(texts: Any) -> bool:
    """True if most of the first texts of a column are no new ones."""
    some = texts[:_SAMPLE]
    return len(some.unique()) * 2 <= len(some)
