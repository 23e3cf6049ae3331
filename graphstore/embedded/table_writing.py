"""New database files: rows made into Arrow tables, each copied in one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.embedded.engine import BUFFER_POOL, connected, engine_errors, opened
from graphstore.embedded.freed_memory import give_back
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

_NODE_POOL = 2**27
_CHUNK, _POOL_A_CHUNK = 2**17, 8
"""Rows of a chunk of a node table, and what the engine may take for each byte of them."""
_POOL_A_ROW = 100
"""What it may take for each relationship."""
_BATCH = 50_000
"""Rows made into Arrow at once."""
_SAMPLE = 1000
"""So many texts say whether those of a column come again and again."""
_RowsOf: TypeAlias = tuple[str, Sequence[Column], Sequence[Row]]
"""The name, columns and rows of a table."""
_REL_TYPES = {rel.type for rel in RELS}


def write_database(path: Path, stages: Iterable[Records]) -> None:
    """Make a new database file at *path* (which must not exist) of the rows of *stages*.

    A table is in one stage only; relationships are between nodes of theirs or earlier stages.
    The next stage is asked for while the engine takes the last rows of the one before. Takes
    the rows out of the records, so that what made them can be freed early.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    with engine_errors(path):
        with opened(path) as database, connected(database) as connection:
            for statement in embedded_ddl():
                connection.execute(statement)
        _copy_all(path, chain.from_iterable(map(_tables, stages)))


def write_tables(path: Path, tables: Iterable[tuple[str, Any]], wanted: int) -> None:
    """Make a new database file at *path* of (name, Arrow table or None), nodes first.

    A table comes once. The engine may take *wanted* bytes of memory.

    Raises:
        StoreError: the engine cannot write it; what is left of it is not usable.
    """
    with engine_errors(path), opened(path, wanted) as database:
        with connected(database) as connection:
            for statement in embedded_ddl():
                connection.execute(statement)
        for name, rows in tables:
            if rows is not None:
                _copy(database, name, rows)


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
        return max(BUFFER_POOL, _POOL_A_ROW * len(rows))
    chunk: float = rows.nbytes * min(1.0, _CHUNK / len(rows))
    return max(_NODE_POOL, round(_POOL_A_CHUNK * chunk))


def _tables(records: Records) -> Iterator[_RowsOf]:
    """Edges early, when least else is in memory, but not made while the biggest table,
    the ops, is copied."""
    early = [node for node in NODES if node.label in ("Op", "OpBlock")]
    yield from _some_tables(
        records, early, [rel for rel in RELS if rel.type in ("FEEDS", "CONTROLS")]
    )
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
    with opened(path, pool, least=_NODE_POOL, threads=1) as database:
        _copy(database, table, rows)


def _copy(database: Any, table: str, rows: Any) -> None:
    """Give the engine the rows of an Arrow table, all in one step: a table without an index
    takes rows once only."""
    # a connection keeps what it was given until it is closed
    with connected(database) as connection:
        names = ""
        if table not in _REL_TYPES:
            names = ", ".join(f"`{name}`" for name in rows.column_names)
            names = f"({names})"
        connection.execute(f"COPY {table}{names} FROM $rows", {"rows": rows})
