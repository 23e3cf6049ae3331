"""Database files written in a process of its own.

On a full disk, or of a defect, the engine may end its whole process; so it is not ours.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graphstore.embedded.child_process import ChildProcess
from graphstore.embedded.engine import DOUBT
from graphstore.embedded.engine_writing import MODULE
from graphstore.errors import StoreError
from graphstore.schema.tables import NODES, RELS

_KEPT_BELOW = 2**22
"""A child that read tables of more bytes has more memory than it should keep."""
_LAST_WORDS = re.compile(rb"what\(\):\s*(.+)")


def write_database(path: Path, files: Sequence[tuple[str, Path]]) -> None:
    """Make a new database file at *path* (which must not exist) of the tables in Parquet *files*,
    nodes first.

    Raises:
        StoreError: the engine cannot write it, or not read them; what is left of it is not usable.
    """
    size = sum(file.stat().st_size for _, file in files)
    with _writing(may_stay=size < _KEPT_BELOW) as child:
        # the child may have been started in another working directory
        absolute = [(table, file.absolute()) for table, file in files]
        answer = child.ask((path.absolute(), list(embedded_ddl()), absolute))
        if isinstance(answer, StoreError):
            raise answer
        if answer is None:
            raise StoreError(_last_words(child), where=str(path), hint=DOUBT)


def embedded_ddl() -> Iterator[str]:
    """The statements that make the embedded store's tables."""
    for node in NODES:
        columns = ", ".join(f"`{column.name}` {column.type}" for column in node.columns)
        yield f"CREATE NODE TABLE {node.label}({columns}, PRIMARY KEY(id))"
    for rel in RELS:
        columns = "".join(f", `{column.name}` {column.type}" for column in rel.columns)
        yield f"CREATE REL TABLE {rel.type}(FROM {rel.source} TO {rel.target}{columns})"


def _last_words(child: ChildProcess) -> str:
    match = _LAST_WORDS.search(child.said)
    if match is not None:
        return f"the embedded database says: {match[1].decode(errors='replace')}"
    ended = child.ended or 0
    by = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
    return f"the embedded database ended while it wrote ({by})"


_idle: list[ChildProcess] = []
_lock = threading.Lock()


@contextmanager
def _writing(*, may_stay: bool) -> Iterator[ChildProcess]:
    """A process that does nothing else; it *may_stay* for a while for the next who needs one."""
    with _lock:
        child = _idle.pop() if _idle else None
    if (
        child is not None and child.ask(None) is not True
    ):  # it has ended, for which it needs no reason
        child.end()
        child = None
    if child is None:
        child = ChildProcess(MODULE)
    try:
        yield child
    except BaseException:
        child.end()
        raise
    if may_stay:
        with _lock:
            _idle.append(child)
    else:
        child.end()


@atexit.register
def end_idle() -> None:
    """End the processes that are kept for the next who writes."""
    with _lock:
        while _idle:
            _idle.pop().end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)
