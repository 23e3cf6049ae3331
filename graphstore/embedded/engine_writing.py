"""What writes database files: a program of its own, which :mod:`write_process` starts.

It loads next to nothing but the engine, so that small runs are saved soon.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.embedded.child_process import serve
from graphstore.embedded.engine import connect, connected, engine_errors, opened
from graphstore.errors import StoreError

MODULE = __name__
LEAST_POOL = 2**27
"""Bytes of memory the engine needs to write anything."""
_MOST_POOL = 2**33
"""Bytes that no copy may take more than."""
_POOL_FULL = "buffer pool is full"
"""What the engine says of a copy that needs more memory than it was given."""
_IDLE_SECONDS = 10.0
_SMALL = 2**20
"""To open the engine takes longer than to copy so few bytes: it stays open for more of them."""
_NOT_NEEDED = frozenset(("numpy", "pandas", "polars"))
"""The engine and Arrow load them only to see that a table is none of theirs."""

Changes: TypeAlias = Sequence[tuple[str, Mapping[str, object]]]
"""Writing statements with their parameters."""


@dataclass(frozen=True, slots=True)
class CopyStep:
    """A statement that copies ``$rows``, the memory and threads the engine may take for it."""

    statement: str
    pool: int
    threads: int


def main() -> None:
    """Do what standard input says; the argument is the handle of the memory with the rows."""
    sys.meta_path[:] = [_Finder(finder) for finder in sys.meta_path]
    writing = Writing(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    serve(writing.done, lambda: None if writing.is_busy else _IDLE_SECONDS)


class Writing:
    """Writes one database file after the other."""

    def __init__(self, shared: int | None = None) -> None:
        self._shared = shared
        self._open = ExitStack()
        self._kept: Any = None
        self.is_busy = False
        """True while a file has not all of its rows."""

    def done(self, request: tuple[Any, ...]) -> StoreError | bool:
        """True, or why a request could not be done."""
        what, path, *more = request
        try:
            with engine_errors(path):
                getattr(self, what)(path, *more)
        except StoreError as error:
            return error
        return True

    def make(self, path: Path, tables: Sequence[str]) -> None:
        """Make a new database file at *path*, which must not exist, by statements."""
        self.is_busy = True
        with opened(path) as database, connected(database) as connection:
            for statement in tables:
                connection.execute(statement)

    def copy(self, path: Path, step: CopyStep, table: int | bytes) -> None:
        """Copy an Arrow stream: so many bytes of the shared memory, or the bytes themselves."""
        import pyarrow as pa

        source: Any = table
        if self._shared is not None and isinstance(table, int):
            source = mmap.mmap(self._shared, table, access=mmap.ACCESS_READ)
        self.copy_table(path, step, pa.ipc.open_stream(pa.py_buffer(source)).read_all())

    def copy_table(self, path: Path, step: CopyStep, rows: Any) -> None:
        """Copy an Arrow table: small ones by one engine, each larger one by its own.

        The engine keeps its buffer as long as it is open.
        """
        if rows.nbytes >= _SMALL:
            self._close()
            _copy_large(path, step, rows)
            return
        if self._kept is None:
            opening = opened(path, LEAST_POOL, least=LEAST_POOL, threads=1)
            self._kept = self._open.enter_context(opening)
        _copy(self._kept, step, rows)

    def finish(self, path: Path) -> None:
        """Have all rows in the file."""
        self._close()
        self.is_busy = False

    def here(self, path: Path) -> None:
        """Nothing: that it answers is the answer."""

    def change(self, path: Path, changes: Changes) -> None:
        """Run a few small writing statements with their parameters."""
        with opened(path) as database:
            connection = connect(database)
            try:
                for statement, params in changes:
                    connection.execute(statement, dict(params))
                connection.execute("CHECKPOINT")
            finally:
                connection.close()

    def _close(self) -> None:
        """Close the engine of small tables, if it is open."""
        self._kept = None
        self._open.close()


def _copy_large(path: Path, step: CopyStep, rows: Any) -> None:
    """Copy with the memory *step* says, or twice as much where that is too little.

    No size of a table tells what a dense graph takes. A copy that failed has left no row."""
    pool = step.pool
    while True:
        try:
            with opened(path, pool, least=LEAST_POOL, threads=step.threads) as database:
                return _copy(database, step, rows)
        except RuntimeError as error:
            if _POOL_FULL not in str(error):
                raise
            if pool >= _MOST_POOL:
                raise StoreError(
                    f"{len(rows)} rows of one table take more than the {pool >> 20} MiB of "
                    "memory that a copy may take",
                    where=str(path),
                    hint="import parts of the graph",
                ) from error
            pool *= 2


def _copy(database: Any, step: CopyStep, rows: Any) -> None:
    """Give the engine the rows of an Arrow table, all in one step: a table without an index
    takes rows once only."""
    # a connection keeps what it was given until it is closed
    with connected(database) as connection:
        connection.execute(step.statement, {"rows": rows})


class _Finder(MetaPathFinder):
    """Finds what *finder* finds, but nothing of :data:`_NOT_NEEDED`."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname in _NOT_NEEDED:
            return None
        return self._finder.find_spec(fullname, path, target)
