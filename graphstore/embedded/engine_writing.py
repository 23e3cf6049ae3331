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
_SMALL = 2**20
"""To open the engine takes longer than to copy so few bytes: it stays open for more of them."""
_NOT_NEEDED = frozenset(("numpy", "pandas", "polars"))
"""The engine and Arrow load them only to see that a table is none of theirs."""


def main() -> None:
    """Do what standard input says."""
    sys.meta_path[:] = [_Finder(finder) for finder in sys.meta_path]
    serve(_done)


def _done(request: tuple[Path, Sequence[str], Sequence[tuple[str, Path]]]) -> object:
    """True, or why a request could not be done."""
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


_LEAST_POOL = 2**27
"""Bytes of memory the engine needs to write anything."""
_ONE_THREAD_FROM = 200 * 2**20
"""Relationships that take so much memory are copied by one thread, others by two."""
_CHUNK = 2**17
"""Rows of a node table that the engine has in memory at once."""
_A_BYTE, _A_REL = 4, 60
"""What it takes for each byte of a chunk of nodes, and for each relationship; measured for ladybug
0.19 with tables of the made models. Others take more, and get it when a copy has failed."""


def _pool_and_threads(rows: Any) -> tuple[int, int]:
    """The memory, in bytes, and the threads with which to copy an Arrow table first.

    The engine ends a copy that needs more, and fills what it may take with pages that are written
    anyway: so neither too little nor much too much. Nodes have one thread, as each has rows of its
    own in memory; relationships are there all at once.
    """
    if "from" not in rows.column_names:
        chunk = min(_CHUNK, len(rows)) / len(rows)
        return max(_LEAST_POOL, round(_A_BYTE * rows.nbytes * chunk)), 1
    pool = max(_LEAST_POOL, _A_REL * len(rows) + 2 * rows.nbytes)
    return pool, 2 if pool < _ONE_THREAD_FROM else 1


class _Finder(MetaPathFinder):
    """Finds what *finder* finds, but nothing of :data:`_NOT_NEEDED`."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname in _NOT_NEEDED:
            return None
        return self._finder.find_spec(fullname, path, target)
