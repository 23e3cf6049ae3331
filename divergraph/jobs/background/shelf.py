"""The jobs of a user: started, looked at, stopped, taken up again and cleared, by any process.

Each job has a folder of its own. Two who look at it at once do no harm: whatever changes a job
holds its lock, as its process does.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from divergraph.jobs.background.job_files import (
    ANSWER,
    ENDED,
    LOCK,
    LOG,
    PROCESS,
    PROGRESS,
    REQUEST,
    STOPPED,
    read_json,
    write_json,
)
from divergraph.jobs.background.own_process import VARIABLE
from divergraph.jobs.background.process_memory import process_memory
from graphstore.errors import InputError
from graphstore.file_lock import held_lock, is_locked
from graphstore.own_python import own_environment, own_python
from graphstore.private_folder import private_folder
from graphstore.process_start import process_start

_NEW = ".new-"
_GRACE = 10.0
"""Seconds a process has to end by itself after it was told to."""
_LOOK = 0.05
_STARTS = 5.0
"""Seconds a new process may take until it has said who it is."""
_LOG_BYTES = 1 << 20
_KEPT_JOBS = 50
KEPT_SECONDS = 30 * 24 * 3600.0
"""So long is known of a job that it is over."""


class BackgroundState(StrEnum):
    """Where a job is in its life; *lost* is a process that ended without a word."""

    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A job as it is now. ``words`` are the command line behind the program's name, run in
    ``directory``; ``exit_code`` is known of one that ended. Times are seconds since 1970."""

    folder: Path
    words: tuple[str, ...]
    store: str
    directory: Path
    asked: float
    state: BackgroundState
    exit_code: int | None = None
    ended: float | None = None

    @property
    def id(self) -> str:
        """Its name, in order of time."""
        return self.folder.name

    @property
    def progress_path(self) -> Path:
        """The file of its progress."""
        return self.folder / PROGRESS


def store_key(url: str) -> str:
    """The store at *url*, by the one name under which its jobs are found again."""
    return url if "://" in url else str(Path(url).expanduser().resolve())


def new_job_id(now: float) -> str:
    """An id for a job asked for at *now*, seconds since 1970; ids are in order of time."""
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{moment}-{f'{now % 1:.6f}'[2:]}-{secrets.token_hex(4)}"


class JobShelf:
    """The jobs below *root*; what ended before the last *kept* of them is forgotten. With None
    somebody else says what is."""

    def __init__(
        self, root: Path, kept: int | None = _KEPT_JOBS, on_end: Callable[[], None] = lambda: None
    ) -> None:
        """*on_end* is called, in any thread, when a process that was started here has ended."""
        self.root = root.absolute()  # processes of jobs have other working directories
        self._kept, self._on_end = kept, on_end

    def jobs(self, store: str | None = None) -> list[BackgroundJob]:
        """All jobs, or those of one store (:func:`store_key`), newest first."""
        if not self.root.is_dir():
            return []
        folders = sorted((path for path in self.root.iterdir()), reverse=True)
        jobs = (self._job(folder) for folder in folders if not folder.name.startswith("."))
        return [job for job in jobs if job and (store is None or job.store == store)]

    def named(self, name: str) -> BackgroundJob | None:
        """The job of this id; None if there is none."""
        return self._job(self.root / name)

    def start(
        self,
        words: Sequence[str],
        store: str,
        directory: Path | None = None,
        *,
        name: str | None = None,
        queue: Mapping[str, object] | None = None,
    ) -> BackgroundJob:
        """Run ``divergraph WORDS`` as a process that outlives this one, and forget old ones. *name*
        is its id, one in order of time if not given; *queue* what one of a queue is to know.

        Raises:
            OSError: its folder cannot be made.
            StoreError: the system has no locks on files.
        """
        if self._kept is not None:
            self._forget_old(self._kept)
        now = time.time()
        folder = self.root / (name or new_job_id(now))
        new = folder.with_name(_NEW + folder.name)
        private_folder(new)
        directory = directory or Path.cwd()
        request = {"words": list(words), "store": store, "directory": str(directory), "asked": now}
        request |= queue or {}
        write_json(new / REQUEST, request)
        with held_lock(new / LOCK) as lock:
            new.rename(folder)
            self._run(folder, tuple(words), directory, lock)
        return self._known(folder)

    def go_on(self, job: BackgroundJob) -> BackgroundJob:
        """Run its command again; a comparison takes up what it has done.

        Raises:
            InputError: it is running.
            OSError: the folder it ran in is gone.
        """
        try:
            with held_lock(job.folder / LOCK, wait=False) as lock:
                for name in (ENDED, STOPPED):
                    (job.folder / name).unlink(missing_ok=True)
                self._run(job.folder, job.words, job.directory, lock)
        except BlockingIOError as error:
            raise InputError("the job is running already") from error
        return self._known(job.folder)

    def stop(self, job: BackgroundJob, grace: float = _GRACE) -> None:
        """End its process: asked first, made to after *grace* seconds. Waits for the end."""
        (job.folder / STOPPED).touch()
        self._signal(job, signal.SIGTERM)
        self._signal(job, signal.SIGCONT)  # one that stands still, as by Ctrl-Z, hears it, too
        if not self._waited(job, grace):
            self._signal(job, signal.SIGKILL)
            self._waited(job, grace)

    def clear(self, job: BackgroundJob) -> None:
        """Forget a job that does not run; what it made stays.

        Raises:
            InputError: it is running.
        """
        try:
            with held_lock(job.folder / LOCK, wait=False), suppress(OSError):
                gone = job.folder.with_name(_NEW + job.folder.name)
                job.folder.rename(gone)  # at once, for those who look
                shutil.rmtree(gone)
        except BlockingIOError as error:
            raise InputError("the job is running; stop it first") from error

    def memory(self, job: BackgroundJob) -> int:
        """Bytes that its processes hold now; 0 where the system does not say."""
        pid = read_json(job.folder / PROCESS).get("pid")
        return process_memory(pid) if isinstance(pid, int) else 0

    def log(self, job: BackgroundJob) -> str:
        """What its processes printed, the last megabyte of it."""
        try:
            with (job.folder / LOG).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _LOG_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def _run(self, folder: Path, words: tuple[str, ...], directory: Path, lock: int) -> None:
        """Start the process, which inherits *lock*."""
        process = _started(folder, words, directory, lock)

        # Somebody has to take note of its end, or it stays in the system's table as long as we do.
        def wait() -> None:
            process.wait()
            self._on_end()

        threading.Thread(target=wait, daemon=True).start()

    def _forget_old(self, limit: int) -> None:
        """Clear what is over for 30 days, and what ended before the last jobs were asked for.

        One that was stopped or lost may still be taken up again, so only its age counts.
        """
        oldest = time.time() - KEPT_SECONDS
        for place, job in enumerate(self.jobs()):
            old = (job.ended or job.asked) < oldest
            surplus = place >= limit and job.state is BackgroundState.ENDED
            if job.state is not BackgroundState.RUNNING and (old or surplus):
                with suppress(InputError):  # somebody took it up again meanwhile
                    self.clear(job)

    def _known(self, folder: Path) -> BackgroundJob:
        job = self._job(folder)
        if job is None:
            raise InputError("the job is gone: another process cleared it", where=str(folder))
        return job

    def _job(self, folder: Path) -> BackgroundJob | None:
        request = read_json(folder / REQUEST)
        try:
            words = tuple(map(str, request["words"]))
            store, directory = str(request["store"]), Path(request["directory"])
            requested_at = float(request["asked"])
        except (KeyError, TypeError, ValueError):
            return None  # cleared meanwhile, or none of ours
        state, ending = _state(folder)
        code, at = ending.get("exit_code"), ending.get("at")
        return BackgroundJob(folder, words, store, directory, requested_at, state, code, at)

    def _signal(self, job: BackgroundJob, number: signal.Signals) -> None:
        """Send a signal to the process of *job*, and to no other that has its number now."""
        end = time.monotonic() + _STARTS
        while is_locked(job.folder / LOCK):
            process = read_json(job.folder / PROCESS)
            pid, start = process.get("pid"), process.get("start")
            if isinstance(pid, int) and process_start(pid) == start:
                with suppress(ProcessLookupError):
                    if number is signal.SIGKILL:
                        os.killpg(pid, number)  # it leads a group of its own
                    else:
                        os.kill(pid, number)
                return
            if time.monotonic() > end:
                return
            time.sleep(_LOOK)

    def _waited(self, job: BackgroundJob, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while is_locked(job.folder / LOCK):
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK)
        return True


def _state(folder: Path) -> tuple[BackgroundState, dict[str, Any]]:
    for _ in range(2):
        # In this order: the process writes how it ended, then lets go of the lock.
        running = is_locked(folder / LOCK)
        ending = read_json(folder / ENDED)
        if ending:
            stopped = ending.get("exit_code") == _INTERRUPTED
            return BackgroundState.STOPPED if stopped else BackgroundState.ENDED, ending
        if running:
            return BackgroundState.RUNNING, ending
        # Neither: lost, or somebody took it up again between both looks.
    stopped = (folder / STOPPED).exists()
    return BackgroundState.STOPPED if stopped else BackgroundState.LOST, {}


_INTERRUPTED, _JSON = 130, "--json"


def _started(
    folder: Path, words: tuple[str, ...], directory: Path, lock: int
) -> subprocess.Popen[bytes]:
    with ExitStack() as files:
        log = files.enter_context((folder / LOG).open("ab"))
        answer = files.enter_context((folder / ANSWER).open("wb")) if _JSON in words else log
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            own_python("-m", "divergraph", *words),
            cwd=directory,
            env=own_environment(**{VARIABLE: str(folder)}),
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # it outlives our terminal, and Ctrl-C there is not for it
        )
