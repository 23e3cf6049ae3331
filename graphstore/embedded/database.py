"""One ladybug database file: written once, then only read.

Every trap of the engine is kept here: bulk data only by COPY from Arrow tables, the
address space it may reserve, its silent limit of 30 hops, one connection a query.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryResult
from graphstore.embedded.freed_memory import give_back
from graphstore.embedded.hops import MAX_HOPS
from graphstore.embedded.query_errors import query_error
from graphstore.errors import QueryError, StoreError
from graphstore.records import Records, as_table
from graphstore.schema import (
    NODES,
    RELS,
    Column,
    ColumnType,
    NodeTable,
    RelTable,
    embedded_ddl,
)
from graphstore.tables import Absent, Row

_MAX_DB_SIZE = 2**36
"""Reserved address space in bytes; by default it takes 8 TiB, which ulimits refuse."""
_SMALLEST_DB_SIZE = 2**30
_BUFFER_POOL = 2**28
"""The memory the engine may take, if more is not needed: it takes what it needs only, and
ends a query or a copy that needs more. 64 MiB are too few for joins over 100,000 ops."""
_NODE_POOL = 2**27
_CHUNK, _POOL_A_CHUNK = 2**17, 8
"""Rows of a chunk of a node table, and what the engine may take for each byte of them."""
_MOST_BUFFER_POOL = 2**31
_POOL_A_ROW = 100
_POOL_A_BYTE = 2
"""What it may take for each row it is given, or each byte of the file it reads."""
_BATCH = 50_000
"""Rows made into Arrow at once."""
_SAMPLE = 1000
"""So many texts say whether those of a column come again and again."""
_MANY_ROWS = 1000
"""From here on, taking all rows through Arrow is faster than one by one."""
_RowsOf: TypeAlias = tuple[str, Sequence[Column], Sequence[Row]]
"""The name, columns and rows of a table."""
_REL_TYPES = {rel.type for rel in RELS}
_INTERNAL_KEYS = ("_ID", "_SRC", "_DST")


def write_database(path: Path, stages: Iterable[Records]) -> None:
    """Make a new database file at *path* (which must not exist) of the rows of *stages*.

    A table is in one stage only; relationships are between nodes of theirs or earlier stages.
    The next stage is asked for while the engine takes the last rows of the one before. Takes
    the rows out of the records, so that what made them can be freed early.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    with _engine_errors(path):
        with _opened(path) as database, _connected(database) as connection:
            for statement in embedded_ddl():
                connection.execute(statement)
        _copy_all(path, chain.from_iterable(map(_tables, stages)))


def _copy_all(path: Path, tables: Iterator[_RowsOf]) -> None:
    """Fill *tables*; while the engine copies one, the rows of the next are made."""
    copying: Future[None] | None = None
    with ThreadPoolExecutor(1, "graphstore-copy") as engine:
        for table, columns, rows in tables:
            made = _arrow_table(columns, rows)
            del rows
            if made is None:
                continue
            if copying is not None:
                copying.result()
            give_back()
            copying = engine.submit(_copy_alone, path, table, made, _pool(table, made))
            del made
        if copying is not None:
            copying.result()
    give_back()


def _pool(table: str, rows: Any) -> int:
    """The memory the engine may take for the rows of a table.

    For nodes it needs about four times a chunk of them, fills what it may take with pages
    that are written anyway, and has a chunk for every thread. For relationships it needs
    67 bytes a row.
    """
    if table in _REL_TYPES:
        return max(_BUFFER_POOL, _POOL_A_ROW * len(rows))
    chunk: float = rows.nbytes * min(1.0, _CHUNK / len(rows))
    return max(_NODE_POOL, round(_POOL_A_CHUNK * chunk))


def _tables(records: Records) -> Iterator[_RowsOf]:
    """Biggest first: most is free to be used then."""
    kinds = {node.label: node for node in NODES}
    first = ("Op", "FEEDS", "CONTROLS")
    yield from _some_tables(records, [kinds[first[0]]], [rel for rel in RELS if rel.type in first])
    yield from _some_tables(records, NODES, RELS)


def _some_tables(
    records: Records, nodes: Iterable[NodeTable], rels: Iterable[RelTable]
) -> Iterator[_RowsOf]:
    for node in nodes:
        if node.label in records.nodes:
            yield node.label, node.columns, records.nodes.pop(node.label)
    for rel in rels:
        if rel.type in records.rels:
            ends = (_key_column("from", rel.source), _key_column("to", rel.target))
            yield rel.type, ends + rel.columns, records.rels.pop(rel.type)


def write_tables(path: Path, tables: Iterable[tuple[str, Any]], wanted: int) -> None:
    """Make a new database file at *path* of (name, Arrow table or None), nodes first.

    A table comes once. The engine may take *wanted* bytes of memory.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    with _engine_errors(path), _opened(path, wanted) as database:
        with _connected(database) as connection:
            for statement in embedded_ddl():
                connection.execute(statement)
        for name, rows in tables:
            if rows is not None:
                _copy(database, name, rows)


@contextmanager
def _connected(database: Any) -> Iterator[Any]:
    """A connection that makes tables without an index.

    The index takes 150 bytes a row. Without it a row is found by a scan of its column (15 ms
    for a million numbers), and relationships are made faster.
    """
    connection = _connect(database)
    try:
        connection.execute("CALL enable_default_hash_index=false")
        yield connection
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


def change_database(path: Path, changes: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    """Run a few small writing statements with their parameters on a database file.

    Raises:
        StoreError: the engine cannot; what is left of the file is not usable.
    """
    with _engine_errors(path), _opened(path) as database:
        connection = _connect(database)
        try:
            for statement, params in changes:
                connection.execute(statement, dict(params))
            connection.execute("CHECKPOINT")
        finally:
            connection.close()


def complete_database(path: Path) -> None:
    """Give a database file of an older schema the tables and columns it lacks.

    Raises:
        StoreError: the engine cannot; what is left of the file is not usable.
    """
    with _engine_errors(path), _opened(path) as database, _connected(database) as connection:
        there = {}
        for (table,) in _all_rows(connection, "CALL show_tables() RETURN name"):
            columns = _all_rows(connection, f"CALL table_info('{table}') RETURN name")
            there[table] = {column for (column,) in columns}
        for statement in embedded_ddl(there):
            connection.execute(statement)


def _all_rows(connection: Any, statement: str) -> list[Any]:
    rows: list[Any] = connection.execute(statement).get_all()
    return rows


class ReadDatabase:
    """A database file opened read-only; several processes and threads may do so at once."""

    def __init__(self, path: Path) -> None:
        self._idle = threading.Condition()
        self._running: set[Any] = set()
        self._path = path
        with _engine_errors(path):
            # a file that is gone is for the engine to say
            size = path.stat().st_size if path.is_file() else 0
            self._database = _open(path, read_only=True, wanted=_POOL_A_BYTE * size)

    def ask(
        self,
        cypher: str,
        params: Mapping[str, object],
        *,
        limit: int | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
        before: str = "",
    ) -> QueryResult:
        """The rows of a query, at most *limit*; *timeout* in seconds.

        *before* is put before it; positions in errors are those in *cypher* itself.

        Raises:
            QueryError: the engine refuses the query, it takes too long or is cancelled.
        """
        stopped = cancellation or Cancellation()
        with self._connection() as connection, stopped.stopping(connection.interrupt):
            if timeout is not None:
                connection.set_query_timeout(max(1, int(timeout * 1000)))
            try:
                result = connection.execute(before + cypher, dict(params))
            except RuntimeError as error:
                stopped.check()
                raise query_error(cypher, str(error), timeout, len(before)) from error
            except (ValueError, TypeError, OverflowError) as error:
                # what the engine's binding says of values it cannot take
                raise QueryError(f"a parameter cannot be used: {error}") from error
            if isinstance(result, list):
                raise QueryError("one statement at a time")
            try:
                return _collect(result, limit, stopped)
            except RuntimeError as error:
                stopped.check()
                raise query_error(cypher, str(error), timeout) from error
            finally:
                result.close()

    def table(self, cypher: str) -> Any:
        """All rows of a query as an Arrow table, in the order they are stored in.

        Raises:
            StoreError: the engine cannot read them.
        """
        with _engine_errors(self._path), self._connection() as connection:
            connection.set_max_threads_for_exec(1)
            result = connection.execute(cypher)
            try:
                return result.get_as_arrow(100_000)
            finally:
                result.close()

    def close(self) -> None:
        """Stop the queries that still run and release the file."""
        with self._idle:
            for connection in self._running:
                connection.interrupt()
            self._idle.wait_for(lambda: not self._running)
            self._database.close()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        with self._idle:
            connection = _connect(self._database)
            self._running.add(connection)
        try:
            yield connection
        finally:
            connection.close()
            with self._idle:
                self._running.discard(connection)
                self._idle.notify_all()


def _collect(result: Any, limit: int | None, stopped: Cancellation) -> QueryResult:
    columns = tuple(result.get_column_names())
    if limit is None and result.get_num_tuples() >= _MANY_ROWS:
        table = result.get_as_arrow(100_000)
        return QueryResult(columns, tuple(zip(*map(_values, table.columns), strict=True)))
    rows: list[tuple[object, ...]] = []
    while result.has_next():
        row = result.get_next()
        if limit is not None and len(rows) == limit:
            return QueryResult(columns, tuple(rows), truncated=True)
        stopped.check()
        rows.append(tuple(_plain(value) for value in row))
    return QueryResult(columns, tuple(rows))


def _values(column: Any) -> list[object]:
    """The same as ``column.to_pylist()``, several times as fast for texts and numbers."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        texts: list[object] = column.to_numpy().tolist()
        return texts
    if not (pa.types.is_integer(kind) or pa.types.is_float64(kind)):
        plain: list[object] = column.to_pylist()
        return plain
    if not column.null_count:
        numbers: list[object] = column.to_numpy().tolist()
        return numbers
    values = np.full(len(column), None, dtype=object)
    values[column.is_valid().to_numpy()] = column.drop_null().to_numpy().astype(object)
    return list(values)


def _plain(value: Any) -> object:
    """Nodes and relationships as dicts of what is set, without the engine's own ids."""
    if isinstance(value, dict) and "_LABEL" in value:
        kept = {k: v for k, v in value.items() if v is not None and k not in _INTERNAL_KEYS}
        return {"_label": kept.pop("_LABEL"), **kept}
    return value


def _key_column(name: str, label: str) -> Column:
    node = next(node for node in NODES if node.label == label)
    return Column(name, node.columns[0].type)


def arrow_types() -> dict[ColumnType, Any]:
    """The Arrow type of each type of column."""
    import pyarrow as pa

    return {
        ColumnType.STRING: pa.string(),
        ColumnType.INT64: pa.int64(),
        ColumnType.DOUBLE: pa.float64(),
        ColumnType.BOOL: pa.bool_(),
        ColumnType.STRINGS: pa.list_(pa.string()),
        ColumnType.BYTES: pa.binary(),
    }


def _arrow_table(columns: Sequence[Column], rows: Sequence[Row]) -> Any:
    """The rows as the engine takes them; None if there are none.

    Columns of nodes are left out where they have no value at all.
    """
    import pyarrow as pa

    types = arrow_types()
    made = as_table(rows)
    if not made:
        return None
    is_rel = columns[0].name == "from"
    parts: dict[str, list[Any]] = {column.name: [] for column in columns}
    repeated: dict[str, bool] = {}
    for first in range(0, len(made), _BATCH):
        values = made.columns(first, first + _BATCH)
        for column, column_values in zip(columns, values, strict=True):
            part: Any = column_values
            if not isinstance(column_values, Absent):
                part = _arrow_array(column, types[column.type], column_values, repeated)
            parts[column.name].append(part)
    whole = {}
    for name in list(parts):
        chunks = parts.pop(name)
        known = [chunk for chunk in chunks if not isinstance(chunk, Absent)]
        if is_rel or any(chunk.null_count < len(chunk) for chunk in known):
            kind = known[0].type
            whole[name] = pa.chunked_array(
                [pa.nulls(len(one), kind) if isinstance(one, Absent) else one for one in chunks]
            )
    return pa.table(whole)


def _arrow_array(column: Column, kind: Any, values: Any, repeated: dict[str, bool]) -> Any:
    """Texts that come again and again are kept once: for a million ops, half of the memory.

    *repeated* says it of the columns of texts that were seen before.
    """
    import pyarrow as pa

    array = pa.array(values, kind)
    if column.type is not ColumnType.STRING:
        return array
    if column.name not in repeated:
        repeated[column.name] = _repeats(array)
    return array.dictionary_encode() if repeated[column.name] else array


def _repeats(texts: Any) -> bool:
    """True if most of the first texts of a column are no new ones."""
    some = texts[:_SAMPLE]
    return len(some.unique()) * 2 <= len(some)


def _copy_alone(path: Path, table: str, rows: Any, pool: int) -> None:
    """As :func:`_copy`, with an engine of its own: it keeps its buffer as long as it is open.

    One thread, as each has rows of its own in memory, and rows of the next table are made
    meanwhile.
    """
    with _opened(path, pool, least=_NODE_POOL, threads=1) as database:
        _copy(database, table, rows)


def _copy(database: Any, table: str, rows: Any) -> None:
    """Give the engine the rows of an Arrow table, all in one step: a table without an index
    takes rows once only."""
    # a connection keeps what it was given until it is closed
    with _connected(database) as connection:
        names = ""
        if table not in _REL_TYPES:
            names = ", ".join(f"`{name}`" for name in rows.column_names)
            names = f"({names})"
        connection.execute(f"COPY {table}{names} FROM $rows", {"rows": rows})


def _open(
    path: Path, *, read_only: bool, wanted: int, least: int = _BUFFER_POOL, threads: int = 0
) -> Any:
    """The database, which may take *wanted* bytes of memory if that is a sensible number."""
    import ladybug

    pool = max(least, min(wanted, _MOST_BUFFER_POOL))
    size = _MAX_DB_SIZE
    while True:
        try:
            return ladybug.Database(
                path,
                read_only=read_only,
                max_db_size=size,
                # On a full disk one of its own kind ends the whole process.
                auto_checkpoint=False,
                buffer_pool_size=min(size // 2, pool),
                max_num_threads=threads,
            )
        except RuntimeError as error:
            if "mmap" not in str(error).lower() or size <= _SMALLEST_DB_SIZE:
                raise
            size //= 4


@contextmanager
def _opened(
    path: Path, wanted: int = _BUFFER_POOL, *, least: int = _BUFFER_POOL, threads: int = 0
) -> Iterator[Any]:
    """A database to be written."""
    database = _open(path, read_only=False, wanted=wanted, least=least, threads=threads)
    try:
        yield database
    finally:
        database.close()


def _connect(database: Any) -> Any:
    import ladybug

    connection = ladybug.Connection(database)
    connection.execute(f"CALL var_length_extend_max_depth={MAX_HOPS}")
    return connection


@contextmanager
def _engine_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        said = str(error).strip().partition("\n")[0]
        raise StoreError(
            f"the embedded database says: {said}",
            where=str(path),
            hint="is the disk full, or the file damaged or made by another version?",
        ) from error
