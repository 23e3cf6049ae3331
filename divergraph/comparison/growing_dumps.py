"""The dumps below a folder that a job is still writing: which of them are whole by now.

A dump is whole when nothing in it changed for a while and no process has a file of it open to
write. One with fewer files than another before it, of the same model, waits longer: a job may
pause in the middle. Files are looked at again and again, as network folders tell of no changes;
the longer nothing happens, the less often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import TypeAlias

from divergraph.files.open_files import is_being_written
from graphstore.errors import InputError
from importers.dumps.folder import Leaf, dump_leaves

QUIET = 5.0
"""Seconds without a change after which a dump counts as whole."""
_PATIENCE = 6
"""So many times as long for a dump that has fewer files than one before it."""
_SOONEST, _LATEST = 0.1, 5.0
"""Seconds between two looks."""
_SLOWER = 1.5

_Seen: TypeAlias = tuple[tuple[str, int, int], ...]
"""Files by name, with size and time."""


@dataclass(slots=True)
class _Dump:
    """What is known of a dump: its files when last looked at, since when they are so, and as they
    were when it was given out."""

    files: _Seen
    since: float
    given: _Seen | None = None
    time: int = 0
    """The folder's, when it was given out: as long as it is that, files need not be looked at."""


class GrowingDumps:
    """The dumps below *root*; *quiet* seconds without a change make one whole."""

    def __init__(
        self, root: Path, quiet: float = QUIET, clock: Callable[[], float] = monotonic
    ) -> None:
        self._root = root
        self._quiet = quiet
        self._clock = clock
        self._known: dict[Path, _Dump] = {}
        self._most: dict[str, int] = {}
        self._delay = _SOONEST
        self._changed = clock()

    def look(self) -> Iterator[Leaf]:
        """The dumps that are whole and were not given out yet, or have changed since.

        Raises:
            InputError: the folder cannot be read any more.
        """
        now = self._clock()
        for leaf in dump_leaves(self._root) if self._root.exists() else ():
            dump = self._known.get(leaf.path)
            if dump is not None and dump.given == dump.files and dump.time == _time(leaf.path):
                continue
            files = _files(leaf.path)
            if dump is None or dump.files != files:
                stamp = None if dump is None else dump.given
                self._known[leaf.path] = _Dump(files, now, stamp)
                self._changed = now
                self._delay = _SOONEST
            elif dump.given != files and self._is_whole(leaf, dump, now):
                dump.given, dump.time = files, _time(leaf.path)
                self._most[leaf.model] = max(len(files), self._most.get(leaf.model, 0))
                yield leaf

    def seconds_still(self) -> float:
        """For how long nothing has changed."""
        return self._clock() - self._changed

    @property
    def waiting(self) -> tuple[Path, ...]:
        """The dumps that are not whole yet."""
        return tuple(path for path, dump in self._known.items() if dump.given != dump.files)

    def pause(self) -> float:
        """Seconds until it is worth looking again."""
        delay = self._delay
        self._delay = min(_LATEST, delay * _SLOWER)
        return min(delay, max(_SOONEST, self._quiet / 2)) if self.waiting else delay

    def _is_whole(self, leaf: Leaf, dump: _Dump, now: float) -> bool:
        fewer = len(dump.files) < self._most.get(leaf.model, 0)
        if now - dump.since < self._quiet * (_PATIENCE if fewer else 1):
            return False
        if is_being_written(leaf.path):
            dump.since = now
            return False
        return _files(leaf.path) == dump.files


def _files(folder: Path) -> _Seen:
    """The files at or below *folder*."""
    files = []
    for path in folder.rglob("*"):
        with suppress(OSError):  # moved since it was listed
            status = path.stat()
            if S_ISREG(status.st_mode):
                files.append((str(path), status.st_size, status.st_mtime_ns))
    return tuple(sorted(files))


def _time(folder: Path) -> int:
    """When something came into *folder* or went last."""
    with suppress(OSError):
        return folder.stat().st_mtime_ns
    return 0


def check_folder(root: Path) -> None:
    """Return if dumps may come to lie in *root*.

    Raises:
        InputError: it is no folder, and will be none.
    """
    if root.exists() and not root.is_dir():
        raise InputError("it is no folder that can grow", where=str(root))
    if not root.parent.is_dir():
        raise InputError("there is no such folder", where=str(root.parent))
