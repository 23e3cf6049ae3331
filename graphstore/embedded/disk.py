"""Steps on the file system that survive a kill: synced files, one process at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from graphstore.errors import StoreError


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write *value* to a new file, down to the disk."""
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Have what was written to a file, or the names in a folder, down on the disk."""
    if os.name != "posix" and path.is_dir():
        return  # only POSIX systems can sync a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def alone(folder: Path) -> AbstractContextManager[None]:
    """No other process is in such a block for *folder*; where the system can do that."""
    return _locked(folder, wait=True)


def marked_alive(folder: Path) -> AbstractContextManager[None]:
    """While this process is in the block, :func:`is_marked_alive` is true of *folder*."""
    return _locked(folder, wait=False)


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # not a POSIX system: renames keep entries whole there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system without locks must do, too: renames keep entries whole there.
        with suppress(OSError):
            # the lock ends with the handle, however the process ends
            flock(handle, LOCK_EX if wait else LOCK_EX | LOCK_NB)
        yield
    finally:
        os.close(handle)


def is_marked_alive(path: Path) -> bool:
    """True if a living process is in :func:`marked_alive` for *path*; False if unknown."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        flock(handle, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


@contextmanager
def os_errors(what: str, path: Path) -> Iterator[None]:
    """Turn what the system says against *what* (a verb) into a StoreError about *path*."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {what} the store: {reason}", where=str(path)) from error
