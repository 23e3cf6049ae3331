"""Database files written in a process of its own.

On a full disk, or of a defect, the engine may end its whole process; so it is not ours.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

from graphstore.embedded.child_process import ChildProcess
from graphstore.embedded.engine import DOUBT
from graphstore.embedded.engine_writing import MODULE, Changes, CopyStep
from graphstore.errors import StoreError

_SHARES = sys.platform != "win32"
"""Tables go to the child in memory that both have; elsewhere through a pipe."""
_KEPT_BELOW = 2**26
"""A child that was given more bytes has more memory than it should keep."""
_LAST_WORDS = re.compile(rb"what\(\):\s*(.+)")


class WriteProcess:
    """A process with the engine, which writes what it is told to; see :func:`writing`."""

    def __init__(self) -> None:
        self._shared = _shared_file() if _SHARES else None
        handles = () if self._shared is None else (self._shared.fileno(),)
        self._child = ChildProcess(MODULE, *map(str, handles), inherited=handles)
        self.given = 0

    @property
    def lives(self) -> bool:
        """False once it has ended, for which it needs no reason."""
        return self._child.ask(("here", Path())) is True

    def make(self, path: Path, tables: Sequence[str]) -> None:
        """Make a new database file by statements."""
        self._told("make", path, tables)

    def give(self, rows: Any) -> object:
        """Have an Arrow table where the child sees it; what to say of it in :meth:`copy`.

        There is place for one at a time.
        """
        import pyarrow as pa

        sink = BytesIO() if self._shared is None else self._shared
        sink.seek(0)
        sink.truncate()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        self.given += sink.tell()
        return sink.getvalue() if isinstance(sink, BytesIO) else sink.tell()

    def copy(self, path: Path, step: CopyStep, rows: object) -> None:
        """Fill a table with rows from :meth:`give`."""
        self._told("copy", path, step, rows)

    def finish(self, path: Path) -> None:
        """Have all of it in the file."""
        self._told("finish", path)

    def change(self, path: Path, changes: Changes) -> None:
        """Run a few small writing statements with their parameters on a database file."""
        self._told("change", path, changes)

    def kill(self) -> None:
        """End it while another thread waits for its answer."""
        self._child.kill()

    def end(self) -> None:
        """End the process."""
        self._child.end()
        if self._shared is not None:
            self._shared.close()

    def _told(self, what: str, path: Path, *more: object) -> None:
        # this process may have another working directory now than when it started the child
        answer = self._child.ask((what, path.absolute(), *more))
        if isinstance(answer, StoreError):
            raise answer
        if answer is None:
            raise StoreError(self._last_words(), where=str(path), hint=DOUBT)

    def _last_words(self) -> str:
        match = _LAST_WORDS.search(self._child.said)
        if match is not None:
            return f"the embedded database says: {match[1].decode(errors='replace')}"
        ended = self._child.ended or 0
        by = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
        return f"the embedded database ended while it wrote ({by})"


_idle: list[WriteProcess] = []
_lock = threading.Lock()


@contextmanager
def writing() -> Iterator[WriteProcess]:
    """A writer that does nothing else; it is kept for a while for the next who needs one."""
    with _lock:
        writer = _idle.pop() if _idle else None
    if writer is not None and not writer.lives:
        writer.end()
        writer = None
    if writer is None:
        writer = WriteProcess()
    try:
        yield writer
    except BaseException:
        writer.end()
        raise
    if writer.given < _KEPT_BELOW:
        with _lock:
            _idle.append(writer)
    else:
        writer.end()


@atexit.register
def end_idle() -> None:
    """End the processes that are kept for the next who writes."""
    with _lock:
        while _idle:
            _idle.pop().end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def _shared_file() -> FileIO:
    if sys.platform == "linux":
        return FileIO(os.memfd_create("divergraph"), "r+")
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        return FileIO(os.dup(file.fileno()), "r+")
