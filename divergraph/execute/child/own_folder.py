"""The folder of a session for models or parts of them, and those that killed sessions left behind.

A process that runs models may empty its folder but not remove it. So the session holds a lock on
the folder, and the next session removes what nobody holds.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_NEW_SECONDS = 60.0
"""A folder may be so young and not be locked yet, or its process not have ended."""


class OwnFolder:
    """A new folder for one session, held until it is removed; *use* is a part of its name."""

    def __init__(self, use: str = "model") -> None:
        remove_left(use)
        self.path = tempfile.mkdtemp(prefix=f"divergraph-{use}-")
        self._held = -1
        if sys.platform == "win32":  # which opens no folders: nobody removes it unasked there
            return
        self._held = os.open(self.path, os.O_RDONLY)
        with suppress(OSError):  # no locks here: then nobody removes it unasked, either
            _lock(self._held)

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._held >= 0:
            os.close(self._held)
            self._held = -1


def remove_left(use: str = "model") -> None:
    """Remove the folders of sessions that were killed."""
    if sys.platform == "win32":
        return
    for path in Path(tempfile.gettempdir()).glob(f"divergraph-{use}-*"):
        with suppress(OSError):  # another's, held, or removed meanwhile
            found = path.lstat()
            if found.st_uid != os.getuid() or time.time() - found.st_mtime < _NEW_SECONDS:
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
