"""A folder of this process for temporary files, and those that killed processes left behind.

Who is killed removes nothing, and a process that runs models may empty its folder but not remove
it. So whoever made a folder holds a lock on it, and the next one who makes a folder removes what
nobody holds.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

_PREFIX = "divergraph-tmp-"
"""Nobody keeps anything under such a name: it would be removed."""
_PRIVATE = 0o700
_NEW_SECONDS = 60.0
"""A folder may be so young and not be locked yet, or its process not have ended."""


class OwnFolder:
    """A new folder, held until it is removed; *use* is a part of its name.

    It goes at the end of a ``with`` block, with its object, or when the process ends.
    """

    def __init__(self, use: str) -> None:
        remove_left()
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{use}-"))
        descriptor = -1
        if sys.platform != "win32":  # which opens no folders: nobody removes it unasked there
            descriptor = os.open(self.path, os.O_RDONLY)
            with suppress(OSError):  # no locks here: then nobody removes it unasked, either
                _lock(descriptor)
        self._end = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        self._end()


def _remove(path: Path, descriptor: int, maker: int) -> None:
    if os.getpid() != maker:  # a process forked from it ends
        return
    shutil.rmtree(path, ignore_errors=True)
    if descriptor >= 0:
        os.close(descriptor)


def remove_left() -> None:
    """Remove the folders of processes that were killed."""
    if sys.platform == "win32":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-????????"):
        with suppress(OSError):  # another's, held, or removed meanwhile
            status = path.lstat()
            is_new = time.time() - status.st_mtime < _NEW_SECONDS
            if is_new or status.st_uid != os.getuid() or S_IMODE(status.st_mode) != _PRIVATE:
                continue
            place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _lock(place)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(place)


def _lock(place: int) -> None:
    """Take the lock of an open folder; OSError where another holds it."""
    import fcntl  # not on every system

    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
