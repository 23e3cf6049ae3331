"""Drafts: what is being written or deleted in a store, and whose it is.

A draft's name starts with ``.writing-`` and says the host and process that made it. A
living writer also holds a lock on it, so a process number that was given out again, or
another container of the same host name, deceives nobody.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from graphstore.embedded.disk import alone, is_marked_alive, marked_alive

_WRITING = ".writing-"
_STALE_SECONDS = 24 * 3600.0


def draft_path(root: Path) -> Path:
    """A new name in *root* that says whose draft it is."""
    return root / f"{_WRITING}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def draft_folder(root: Path) -> Iterator[Path]:
    """A fresh folder in *root*, this process's own; gone afterwards, come what may."""
    folder = draft_path(root)
    with ExitStack() as stack:
        with alone(root):
            folder.mkdir()
            stack.enter_context(marked_alive(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def abandoned_drafts(root: Path) -> list[Path]:
    """The drafts whose writer is gone; of other hosts, those older than a day."""
    return sorted(path for path in root.glob(f"{_WRITING}*") if _is_abandoned(path))


def remove_draft(path: Path) -> None:
    """Delete a draft that is nobody's any more."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    if is_marked_alive(path):
        return False
    host, _, number = path.name.removeprefix(_WRITING).rpartition("-")[0].rpartition("-")
    if host == socket.gethostname() and number.isdecimal() and not _is_process(int(number)):
        return True
    try:
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


def _is_process(number: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
