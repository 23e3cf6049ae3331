"""New database files: rows made into Arrow tables, each copied in one step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphstore.cypher.statements import load_statements
from graphstore.embedded.engine import engine_errors, give_back
from graphstore.embedded.engine_writing import LEAST_POOL, CopyStep
from graphstore.embedded.table_files import TABLES, write_table_file
from graphstore.embedded.write_process import writing
from graphstore.schema.row_slices import Absent, Records, Repeated, Row, Table, as_table
from graphstore.schema.tables import (
    NODES,
    RELS,
    Column,
    ColumnType,
)

_STATEMENTS = load_statements("entries.embedded")

_BATCH = 50_000
"""Rows made into Arrow at once."""
_ALONE_FROM = 128 * 2**20
"""While a table of so many bytes is copied, no rows of the next are made."""
_ONE_THREAD_FROM = 200 * 2**20
"""Relationships that take so much memory are copied by one thread, others by two."""
_SAMPLE = 1000
"""So many texts say whether those of a column come again and again."""
_RowsOf: TypeAlias = tuple[str, Sequence[Column], Sequence[Row]]
"""The name, columns and rows of a table."""
_REL_TYPES = {rel.type for rel in RELS}


def write_database(path: Path, stages: Iterable[Records], meanwhile: Iterable[None] = ()) -> None:
    """Make a new database file at *path* (which must not exist) of the rows of *stages*.

    A table is in one stage only; relationships are between nodes of theirs or earlier stages.
    The next stage is asked for while the engine takes the last rows of the one before, and
    where the engine takes longer, so are steps of *meanwhile*. Takes the rows out of the
    records, so that what made them can be freed early. The tables are kept as files, too, in the
    folder ``tables`` beside *path*.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    tables = _arrow_tables(chain.from_iterable(map(_tables, stages)))
    _write(path, tables, iter(meanwhile), path.parent / TABLES)


def write_tables(path: Path, tables: Iterable[tuple[str, Any]], files: Path | None = None) -> None:
    """Make a new database file at *path* of (name, Arrow table or None), nodes first.

    A table comes once. They are kept as files in the folder *files*, too, if there is one.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    _write(path, ((name, [rows]) for name, rows in tables), iter(()), files)


def _write(
    path: Path,
    tables: Iterator[tuple[str, list[Any]]],
    meanwhile: Iterator[None],
    files: Path | None = None,
) -> None:
    """Fill *tables*; while the engine copies one, the rows of the next are made, but beside
    a big one, and written to the folder *files*, if any."""
    with (
        engine_errors(path),
        ThreadPoolExecutor(1, "graphstore-copy") as engine,
        writing() as writer,
    ):
        copying = engine.submit(writer.make, path, list(embedded_ddl()))
        try:
            for table, chunks in tables:
                if chunks[0] is None:
                    continue
                if files is not None:
                    write_table_file(files, table, chunks[0])
                _wait(copying, meanwhile)
                is_big = chunks[0].nbytes >= _ALONE_FROM
                step = copy_step(table, chunks[0])
                rows = writer.give(chunks.pop())
                give_back()
                copying = engine.submit(writer.copy, path, step, rows)
                if is_big:
                    _wait(copying, meanwhile)
            copying.result()
            writer.finish(path)
        except BaseException:
            writer.kill()  # or the thread that waits for its answer would wait for ever
            wait([copying])
            raise


def _arrow_tables(tables: Iterator[_RowsOf]) -> Iterator[tuple[str, list[Any]]]:
    """Arrow tables, each in a list that whoever takes it out of has alone."""
    for table, columns, rows in tables:
        parts = [_arrow_table(columns, rows)]
        del rows
        yield table, parts


def _wait(copying: Future[None], meanwhile: Iterator[None]) -> None:
    """Return when the engine has copied a table; until then, do steps of *meanwhile*."""
    is_more = True
    while is_more and not copying.done():
        is_more = next(meanwhile, "end") is None
    copying.result()


def _tables(records: Records) -> Iterator[_RowsOf]:
    for node in NODES:
        if node.label in records.nodes:
            yield node.label, node.columns, records.nodes.pop(node.label)
    for rel in RELS:
        if rel.type in records.rels:
            ends = (_key_column("from", rel.source), _key_column("to", rel.target))
            yield rel.type, ends + rel.columns, records.rels.pop(rel.type)


def _key_column(name: str, label: str) -> Column:
    node = next(node for node in NODES if node.label == label)
    return Column(name, node.columns[0].type)


def embedded_ddl() -> Iterator[str]:
    """The statements that make the embedded store's tables."""
    for node in NODES:
        columns = ", ".join(f"`{column.name}` {column.type}" for column in node.columns)
        yield f"CREATE NODE TABLE {node.label}({columns}, PRIMARY KEY(id))"
    for rel in RELS:
        columns = "".join(f", `{column.name}` {column.type}" for column in rel.columns)
        yield f"CREATE REL TABLE {rel.type}(FROM {rel.source} TO {rel.target}{columns})"


def copy_step(table: str, rows: Any) -> CopyStep:
    """How the engine copies an Arrow table into the table *table*.

    One thread for nodes, as each has rows of its own in memory, and rows of the next table are
    made meanwhile.
    """
    if table in _REL_TYPES:
        pool = rel_pool(rows)
        statement = _STATEMENTS.filled("copy", table=table, columns="")
        return CopyStep(statement, pool, 2 if pool < _ONE_THREAD_FROM else 1)
    names = ", ".join(f"`{name}`" for name in rows.column_names)
    statement = _STATEMENTS.filled("copy", table=table, columns=f"({names})")
    return CopyStep(statement, node_pool(rows), 1)


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


class ArrowRows(Sequence[Row]):
    """Rows of one table made into Arrow as they come: there in far less memory than as values."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._parts: dict[str, list[Any]] = {column.name: [] for column in columns}
        self._repeated: dict[str, bool] = {}
        self._size = 0

    def add(self, rows: Table) -> None:
        """More rows."""
        types = arrow_types()
        for first in range(0, len(rows), _BATCH):
            values = rows.columns(first, first + _BATCH)
            for column, column_values in zip(self._columns, values, strict=True):
                part: Any = column_values
                if not isinstance(column_values, Absent):
                    kind = types[column.type]
                    part = _arrow_array(column, kind, column_values, self._repeated)
                self._parts[column.name].append(part)
        self._size += len(rows)

    def table(self) -> Any:
        """The rows as the engine takes them, None if there are none; they are here no more.

        Columns of nodes are left out where they have no value at all.
        """
        import pyarrow as pa

        if not self._size:
            return None
        types, is_rel = arrow_types(), self._columns[0].name == "from"
        arrays = {}
        for column in self._columns:
            chunks = self._parts.pop(column.name)
            filled = [chunk for chunk in chunks if not isinstance(chunk, Absent)]
            if is_rel or any(chunk.null_count < len(chunk) for chunk in filled):
                kind = _common_type({chunk.type for chunk in filled}, types[column.type])
                arrays[column.name] = pa.chunked_array(
                    [
                        pa.nulls(len(one), kind) if isinstance(one, Absent) else one.cast(kind)
                        for one in chunks
                    ]
                )
        return pa.table(arrays)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        raise TypeError("these rows are taken as a table")


def _arrow_table(columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """The rows as the engine takes them; None if there are none."""
    arrow_rows = rows
    if not isinstance(arrow_rows, ArrowRows):
        arrow_rows = ArrowRows(columns)
        arrow_rows.add(as_table(rows))
    return arrow_rows.table()


def _arrow_array(column: Column, kind: Any, values: Any, repeated: dict[str, bool]) -> Any:
    """Values in as few bytes as they take: for a million ops, half of the memory.

    Texts that come again and again are kept once; *repeated* says it of the columns of texts
    that were seen before. The engine widens numbers.
    """
    import pyarrow as pa

    if isinstance(values, Repeated) and column.type is ColumnType.STRING:
        repeated.setdefault(column.name, True)
        places = pa.array(np.zeros(len(values), dtype=np.int32))
        return pa.DictionaryArray.from_arrays(places, [values.value])
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


# It ends a copy that needs more, and fills what it may take with pages that are written anyway:
# so neither too little nor much too much. The figures were measured for ladybug 0.19, one
# thread for nodes and two for relationships, as the least with which tables of different shapes
# could be copied, and made larger.

_CHUNK = 2**17
"""Rows of a node table that the engine has in memory at once."""
_NUMBER, _TEXT_PLACE = 8, 12
"""Bytes the engine has for a number, and for a text beside what it is made of."""
_A_FIXED_BYTE, _A_TEXT_BYTE, _A_LIST_BYTE, _A_BLOB_BYTE = 3.5, 7.0, 2.5, 8.0
"""What it takes for each byte of such columns of a chunk, copies while they grow included."""
_FOR_RELS, _A_REL, _A_REL_BYTE, _A_REL_BYTE_AGAIN = 2**25, 50, 8, 6
"""What it takes for relationships, for each of them, and for each byte of their texts: of texts
that are all different, and of those that come again and again."""


def node_pool(rows: Any) -> int:
    """Bytes for the nodes of an Arrow table, by its largest chunk."""
    chunks = (rows.slice(first, _CHUNK) for first in range(0, len(rows), _CHUNK))
    return max(LEAST_POOL, *(round(sum(map(_column_pool, chunk.columns))) for chunk in chunks))


def rel_pool(rows: Any) -> int:
    """Bytes for the relationships of an Arrow table: the engine has all of them in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = 0
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            longest = [pc.max(pc.binary_length(part.dictionary)).as_py() for part in column.chunks]
            texts += _A_REL_BYTE_AGAIN * len(column) * max(filter(None, longest), default=0)
        elif pa.types.is_string(column.type):
            texts += _A_REL_BYTE * (pc.sum(pc.binary_length(column)).as_py() or 0)
    return max(LEAST_POOL, _FOR_RELS + _A_REL * len(rows) + texts)


def _column_pool(column: Any) -> float:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        return _A_TEXT_BYTE * float(column.nbytes)
    if pa.types.is_binary(kind):
        return _A_BLOB_BYTE * float(column.nbytes)
    if pa.types.is_list(kind):
        return _A_LIST_BYTE * float(column.nbytes)
    if pa.types.is_dictionary(kind):
        texts = sum([int(part.dictionary.nbytes) for part in column.chunks])
        return _A_FIXED_BYTE * _TEXT_PLACE * len(column) + _A_TEXT_BYTE * texts
    return _A_FIXED_BYTE * _NUMBER * len(column)
