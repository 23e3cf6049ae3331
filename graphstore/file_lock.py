"""Locks on files, which the kernel drops when the process that holds them ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graphstore.errors import StoreError
from graphstore.private_folder import private_folder


@contextmanager
def held_lock(path: Path, *, wait: bool = True) -> Iterator[int]:
    """Waits for the lock; gives its descriptor, which a child that inherits it holds on to.

    Raises:
        BlockingIOError: without *wait*, somebody else holds it.
    """
    descriptor = _opened(path)
    try:
        _flock(descriptor, shared=False, wait=wait)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock."""
    if not path.exists():
        return False
    descriptor = _opened(path)
    try:
        # shared, or two who ask at once would take each other for the holder
        _flock(descriptor, shared=True, wait=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _opened(path: Path) -> int:
    private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _flock(descriptor: int, *, shared: bool, wait: bool) -> None:
    try:
        import fcntl
    except ImportError as error:
        raise StoreError(
            "processes that outlive the command need Linux or macOS",
            hint="do the work in the foreground; start a Neo4j server with its own tools",
        ) from error
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
