"""The embedded engine: how its files are opened, and what is said when it fails.

Its traps are kept here and beside: the address space it may reserve, its silent limit of 30
hops, one connection a query, bulk data only by COPY from Arrow tables.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from graphstore.embedded.refused import MAX_HOPS
from graphstore.errors import StoreError

BUFFER_POOL = 2**28
"""The memory the engine may take, if more is not needed: it takes what it needs only, and
ends a query or a copy that needs more. 64 MiB are too few for joins over 100,000 ops."""
_MAX_DB_SIZE = 2**36
"""Reserved address space in bytes; by default it takes 8 TiB, which ulimits refuse."""
_SMALLEST_DB_SIZE = 2**30
_MOST_BUFFER_POOL = 2**31
DOUBT = "is the disk full, or the file damaged or made by another version?"
_MAGIC, _HEAD = b"LBUG", 12
"""What a file begins with: four letters and the version of its form, 8 bytes. Engines read older
forms; an older engine refuses a newer one, and knows no way back."""


def open_file(
    path: Path, *, read_only: bool, wanted: int, smallest: int = BUFFER_POOL, threads: int = 0
) -> Any:
    """The database, which may take *wanted* bytes of memory if that is a sensible number."""
    import ladybug

    # reading can do with less than it wants, writing cannot
    pool = max(smallest, min(wanted, _MOST_BUFFER_POOL) if read_only else wanted)
    size = _MAX_DB_SIZE
    while True:
        try:
            return ladybug.Database(
                path,
                read_only=read_only,
                max_db_size=size,
                # On a full disk one of its own kind ends the engine's process.
                auto_checkpoint=False,
                buffer_pool_size=min(size // 2, pool),
                max_num_threads=threads,
            )
        except RuntimeError as error:
            if "mmap" not in str(error).lower() or size <= _SMALLEST_DB_SIZE:
                raise
            size //= 4


@contextmanager
def opened(
    path: Path, wanted: int = BUFFER_POOL, *, least: int = BUFFER_POOL, threads: int = 0
) -> Iterator[Any]:
    """A database to be written."""
    database = open_file(path, read_only=False, wanted=wanted, smallest=least, threads=threads)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def connected(database: Any) -> Iterator[Any]:
    """A connection that makes tables without an index.

    The index takes 150 bytes a row. Without it a row is found by a scan of its column (15 ms
    for a million numbers), and relationships are made faster.
    """
    connection = connect(database)
    try:
        connection.execute("CALL enable_default_hash_index=false")
        yield connection
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


def connect(database: Any) -> Any:
    """A connection; its answers may be as many hops away as the engine can count."""
    import ladybug

    connection = ladybug.Connection(database)
    connection.execute(f"CALL var_length_extend_max_depth={MAX_HOPS}")
    return connection


@contextmanager
def engine_errors(path: Path) -> Iterator[None]:
    """What the engine raises inside is a StoreError about the file *path*."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        message = str(error).strip().partition("\n")[0]
        raise StoreError(
            f"the embedded database says: {message}",
            where=str(path),
            hint=DOUBT,
        ) from error


def give_back() -> None:
    """Give back what Arrow and the C library keep for later.

    Large pieces are of different sizes; without this, at a million ops 250 MiB of them are free
    and yet taken. Does nothing for Arrow where it was not used, nor where the C library is not
    GNU's.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def engine_name() -> str:
    """The engine that is installed, and its version."""
    return f"ladybug {version('ladybug')}"


def check_form(path: Path, writer: str | None) -> None:
    """Return if the installed engine can read a database file that *writer*, if anybody knows,
    wrote; of what is none it says so itself.

    Raises:
        StoreError: a newer engine wrote it.
    """
    import ladybug

    form = None if writer == engine_name() else _form(path)
    if form is not None and form > int(ladybug.storage_version):
        raise StoreError(
            f"{writer or 'a newer version of ladybug'} wrote it; {engine_name()}, which is "
            "installed, cannot read it",
            where=str(path),
            hint="nothing is damaged: ask with that engine, or `divergraph backup` with it and "
            "`restore` here",
        )


def _form(path: Path) -> int | None:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    whole = len(head) == _HEAD and head.startswith(_MAGIC)
    return int.from_bytes(head[len(_MAGIC) :], "little") if whole else None
