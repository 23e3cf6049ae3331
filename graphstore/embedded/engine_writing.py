"""What writes database files: a program of its own, which :mod:`write_process` starts.

It loads next to nothing but the engine and Arrow, so that small runs are there soon.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from graphstore.cypher.statements import load_statements
from graphstore.embedded.child_process import serve
from graphstore.embedded.engine import connected, engine_errors, opened
from graphstore.errors import StoreError

MODULE = __name__
_STATEMENTS = load_statements("entries.embedded")
_MOST_POOL = 2**33
"""Bytes that no copy may take more than."""
_POOL_FULL = "buffer pool is full"
"""What the engine says of a copy that needs more memory than it was given."""
_IDLE_SECONDS = 10.0
_SMALL = 2**20
"""To open the engine takes longer than to copy so few bytes: it stays open for more of them."""
_NOT_NEEDED = frozenset(("numpy", "pandas", "polars"))
"""The engine and Arrow load them only to see that a table is none of theirs."""


def main() -> None:
    """Do what standard input says."""
    sys.meta_path[:] = [_Finder(finder) for finder in sys.meta_path]
    serve(_done, lambda: _IDLE_SECONDS)


def _done(request: tuple[Path, Sequence[str], Sequence[tuple[str, Path]]] | None) -> object:
    """True, or why a request could not be done."""
    if request is None:
        return True
    path, ddl, files = request
    try:
        with engine_errors(path):
            make(path, ddl, files)
    except StoreError as error:
        return error
    except OSError as error:
        return StoreError(f"cannot be read: {error.strerror or error}", where=str(error.filename))
    return True


def make(path: Path, ddl: Sequence[str], files: Sequence[tuple[str, Path]]) -> None:
    """Make a new database file at *path* by the statements *ddl*, with the tables in *files*.

    Small ones are copied by one engine, each larger one by its own, as the engine keeps its buffer
    as long as it is open.
    """
    from pyarrow.parquet import read_table

    with ExitStack() as small:
        connection: Any = small.enter_context(_one_for_small(path))
        for statement in ddl:
            connection.execute(statement)
        for table, file in files:
            rows = read_table(file, memory_map=False)
            if rows.nbytes < _SMALL:
                if connection is None:
                    connection = small.enter_context(_one_for_small(path))
                if _is_copied(connection, table, rows):
                    continue
            small.close()
            connection = None
            _copy_large(path, table, rows)


@contextmanager
def _one_for_small(path: Path) -> Iterator[Any]:
    """A connection that copies small tables."""
    with (
        opened(path, _LEAST_POOL, least=_LEAST_POOL, threads=1) as database,
        connected(database) as connection,
    ):
        yield connection


def _copy_large(path: Path, table: str, rows: Any) -> None:
    """Copy with the memory it should take, or twice as much where that is too little.

    No size of a table tells what a dense graph takes. A copy that failed has left no row."""
    pool, threads = _pool_and_threads(rows)
    while True:
        with (
            opened(path, pool, least=_LEAST_POOL, threads=threads) as database,
            connected(database) as connection,
        ):
            if _is_copied(connection, table, rows):
                return
        if pool >= _MOST_POOL:
            raise StoreError(
                f"{len(rows)} rows of one table take more than the {pool >> 20} MiB of "
                "memory that a copy may take",
                where=str(path),
                hint="import parts of the graph",
            )
        pool *= 2


def _is_copied(connection: Any, table: str, rows: Any) -> bool:
    """Give the engine the rows of an Arrow table, all in one step: a table without an index
    takes rows once only. False if that takes more memory than it was given."""
    is_rel = "from" in rows.column_names
    columns = "" if is_rel else f"({', '.join(f'`{name}`' for name in rows.column_names)})"
    statement = _STATEMENTS.filled("copy", table=table, columns=columns)
    try:
        connection.execute(statement, {"rows": rows})
    except RuntimeError as error:
        if _POOL_FULL not in str(error):
            raise
        return False
    return True


# The memory and threads the engine may take for copying a table. It ends a copy that needs more,
# and fills what it may take with pages that are written anyway: so neither too little nor much too
# much. The figures were measured for ladybug 0.19, one thread for nodes and two for relationships,
# as the least with which tables of different shapes could be copied, and made larger.

_LEAST_POOL = 2**27
"""Bytes of memory the engine needs to write anything."""
_ONE_THREAD_FROM = 200 * 2**20
"""Relationships that take so much memory are copied by one thread, others by two."""
_CHUNK = 2**17
"""Rows of a node table that the engine has in memory at once."""
_NUMBER, _TEXT_PLACE = 8, 12
"""Bytes the engine has for a number, and for a text beside what it is made of."""
_A_FIXED_BYTE, _A_TEXT_BYTE, _A_LIST_BYTE, _A_BLOB_BYTE = 3.5, 7.0, 2.5, 8.0
"""What it takes for each byte of such columns of a chunk, copies while they grow included."""
_FOR_RELS, _A_REL, _A_REL_BYTE, _A_REL_BYTE_AGAIN = 2**25, 50, 8, 6
"""What it takes for relationships, for each of them, and for each byte of their texts: of texts
that are all different, and of those that come again and again."""


def _pool_and_threads(rows: Any) -> tuple[int, int]:
    """Bytes and threads for an Arrow table; one thread for nodes, as each has rows of its own in
    memory."""
    if "from" not in rows.column_names:
        return _node_pool(rows), 1
    pool = _rel_pool(rows)
    return pool, 2 if pool < _ONE_THREAD_FROM else 1


def _node_pool(rows: Any) -> int:
    """Bytes for nodes, by their largest chunk."""
    chunks = (rows.slice(first, _CHUNK) for first in range(0, len(rows), _CHUNK))
    return max(_LEAST_POOL, *(round(sum(map(_column_pool, chunk.columns))) for chunk in chunks))


def _rel_pool(rows: Any) -> int:
    """Bytes for relationships: the engine has all of them in memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = 0
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            longest = [pc.max(pc.binary_length(part.dictionary)).as_py() for part in column.chunks]
            texts += _A_REL_BYTE_AGAIN * len(column) * max(filter(None, longest), default=0)
        elif pa.types.is_string(column.type):
            texts += _A_REL_BYTE * (pc.sum(pc.binary_length(column)).as_py() or 0)
    return max(_LEAST_POOL, _FOR_RELS + _A_REL * len(rows) + texts)


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


class _Finder(MetaPathFinder):
    """Finds what *finder* finds, but nothing of :data:`_NOT_NEEDED`."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname in _NOT_NEEDED:
            return None
        return self._finder.find_spec(fullname, path, target)
