"""Opening dump files without being stopped by what else may lie there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from importers.dumps.index import DamagedError

# Not waiting for a writer matters only for a pipe put in the file's place.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@contextmanager
def open_dump(path: Path) -> Iterator[tuple[int, int]]:
    """A file descriptor for reading and the file's size in bytes.

    Raises:
        DamagedError: it cannot be opened or read, or is not a regular file.
    """
    try:
        fd = os.open(path, OPEN_FLAGS)
    except OSError as error:
        raise _unreadable(error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("this is not a regular file")
        yield fd, status.st_size
    except OSError as error:
        raise _unreadable(error) from error
    finally:
        os.close(fd)


def _unreadable(error: OSError) -> DamagedError:
    return DamagedError(f"the file cannot be read: {error.strerror}")
