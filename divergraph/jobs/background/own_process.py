"""The process of a job, seen from inside: it says who it is, how far, and how it ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from divergraph.jobs.background.job_files import ENDED, PROCESS, PROGRESS, read_json, write_json
from divergraph.jobs.background.progress_file import ProgressFile
from graphstore.process_start import process_start

VARIABLE = "DIVERGRAPH_JOB"
"""The folder of the job this process does."""

_NICE = 5

_own: list[tuple[Path, ProgressFile]] = []


def own_progress() -> ProgressFile | None:
    """Where this process tells its progress if it does a job; None for a command of a shell."""
    return _own[-1][1] if _own else None


def own_folder() -> Path | None:
    """The folder of the job this process does; None for a command of a shell."""
    return _own[-1][0] if _own else None


class Ending:
    """How the work of the block ended: the exit code, once it is known."""

    exit_code: int | None = None


@contextmanager
def as_job() -> Iterator[Ending]:
    """The block is the work of the job that the environment names, if it names one.

    SIGTERM then ends the work as Ctrl-C does, so that what was begun is taken back; a second
    one ends the process.
    """
    ending = Ending()
    named = os.environ.pop(VARIABLE, "")  # processes we start do no job of their own
    if not named:
        yield ending
        return
    folder = Path(named)
    try:
        progress = _told_in(folder)
    except OSError:  # a full disk, no such folder: the work may do without, and is seen as lost
        yield ending
        return
    if hasattr(os, "nice"):  # who looks at a screen or asks a server comes first
        os.nice(_NICE)
    with suppress(OSError):  # where memory runs out, the system is to end this and no server
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    _own.append((folder, progress))
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield ending
    finally:
        _own.remove((folder, progress))
        progress.close()
        if ending.exit_code is not None:
            with suppress(OSError):
                write_json(folder / ENDED, {"exit_code": ending.exit_code, "at": time.time()})


def _told_in(folder: Path) -> ProgressFile:
    attempt = (read_json(folder / PROCESS).get("attempt") or 0) + 1
    pid = os.getpid()
    write_json(folder / PROCESS, {"pid": pid, "start": process_start(pid), "attempt": attempt})
    progress = ProgressFile(folder / PROGRESS)
    progress.attempt(attempt)
    return progress


def _stop(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt
