"""Who takes jobs from the queue, starts their processes and sees how they end.

A process outlives the server. The folder of a job has the job's name, and its lock is held as long
as a process of it lives: so a server that comes back finds what runs, starts nothing twice, and
takes up what was lost.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from starlette.exceptions import HTTPException

from divergraph.jobs.background.job_table import JobTable, QueuedJob, QueuedState
from divergraph.jobs.background.progress_file import ProgressReader
from divergraph.jobs.background.shelf import KEPT_SECONDS, BackgroundJob, BackgroundState, JobShelf
from divergraph.server.jobs.requests import WRITING, paths_read
from divergraph.server.roots import Roots
from divergraph.server.settings import Limits
from graphstore.errors import DivergraphError, InputError

log = logging.getLogger("divergraph.server.jobs")
_LOOK_SECONDS, _IDLE_SECONDS = 0.5, 2.0
"""Between two looks while jobs run, and while there are none; the end of a process and a new job
are seen at once, what other servers of the queue do with the next look."""
_TIDY_SECONDS = 3600.0
_GRACE = 10.0
"""Seconds a job has to take back what it began."""
_ATTEMPTS = 3
"""So often is a job begun whose process ends without a word."""
_ANYWHERE = Roots(None)


class JobRunner:
    """Runs the jobs of ``table`` in folders of ``shelf``, as many at once as *limits* allow."""

    def __init__(
        self,
        table: JobTable,
        folder: Path,
        store: str,
        limits: Limits,
        roots: Roots = _ANYWHERE,
    ) -> None:
        self._changed = threading.Event()
        self.table = table
        # what ended is in the table, once seen
        self.shelf = JobShelf(folder, kept=None, on_end=self._changed.set)
        self._store, self._limits, self._roots = store, limits, roots
        self._stopping: set[str] = set()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin; jobs that an ended server had started are found again."""
        self._thread.start()

    def end(self) -> None:
        """Start nothing more; processes that run go on."""
        self._ending = True
        self._changed.set()
        self._thread.join()
        self.table.close()

    def add(self, owner: str, command: str, words: Sequence[str]) -> QueuedJob:
        """Put a job in the queue; it is looked at soon."""
        job = self.table.add(owner, command, words)
        self._changed.set()
        return job

    def stop(self, job: QueuedJob) -> None:
        """End a job: off the queue, or its process. Waits for that."""
        if not self.table.cancel(job.id):
            process = self.shelf.named(job.id)
            if process is not None:
                self.shelf.stop(process)
            self._changed.set()  # its children end with it

    def _run(self) -> None:
        seconds, tidied = 0.0, -math.inf
        while True:
            self._changed.wait(seconds)
            self._changed.clear()
            if self._ending:
                return
            try:
                if time.monotonic() - tidied > _TIDY_SECONDS:
                    self.tidy()
                    tidied = time.monotonic()
                seconds = _LOOK_SECONDS if self.look() else _IDLE_SECONDS
            except (DivergraphError, OSError) as error:  # a full disk: it may have room again
                log.warning("jobs: %s", error)
                seconds = _IDLE_SECONDS

    def tidy(self) -> None:
        """Forget jobs that are over for 30 days, with their children and folders."""
        for name in self.table.over_before(time.time() - KEPT_SECONDS):
            ids = (name, *(child.id for child in self.table.children(name)))
            for process in filter(None, map(self.shelf.named, ids)):
                self.shelf.clear(process)
            self.table.forget(name)

    def look(self) -> bool:
        """See what has ended, and start what may run; whether anything runs or waits."""
        jobs = self.table.open_jobs()
        if not jobs:
            return False
        ids = {job.id for job in jobs}
        for job in jobs:
            if job.parent and job.parent not in ids:
                self._end_orphan(job)
            elif job.state is QueuedState.RUNNING:
                self._see(job)
        if any(job.state is QueuedState.QUEUED for job in jobs):
            room = self._limits.jobs - self.table.working()
            for _ in range(room):
                claimed = self.table.claim(self._limits.jobs_of_one)
                if claimed is None:
                    break
                self._begin(claimed)
        return True

    def _begin(self, job: QueuedJob) -> None:
        queue = {"at_once": self._limits.jobs, "queue": str(self.table.path.absolute())}
        if job.parent:
            queue = {"part": job.part}
        folder = self.shelf.root  # one for all: a comparison and its children find their journals
        if job.command in WRITING:
            folder /= job.id  # what it writes is forgotten with it
        try:
            if self._roots.folders is not None:  # while it waited, a link may have come
                self._roots.check(paths_read(job.command, job.words))
            self.shelf.start(job.words, self._store, folder, name=job.id, queue=queue)
        except (DivergraphError, OSError, HTTPException) as error:
            reason = error.detail if isinstance(error, HTTPException) else error
            message = f"it could not be started: {reason}"
            self.table.change(job.id, QueuedState.LOST, ended=time.time(), error=message)

    def _see(self, job: QueuedJob) -> None:
        process = self.shelf.named(job.id)
        if process is None:
            # Claimed by a server that ended before it had a folder.
            if job.started is not None and time.time() - job.started > self._limits.claim_seconds:
                self.table.change(job.id, QueuedState.QUEUED)
        elif process.state is BackgroundState.RUNNING:
            self._hold(job, process)
        elif process.state is BackgroundState.LOST and job.attempts < _ATTEMPTS:
            self._again(job, process)
        else:
            self._note_end(job, process)

    def _end_orphan(self, job: QueuedJob) -> None:
        """End a child whose parent is over: nobody waits for it."""
        if self.table.cancel(job.id):
            return
        process = self.shelf.named(job.id)
        if process is not None and process.state is BackgroundState.RUNNING:
            self._end(job, process, "the job it was a part of is over")
        elif process is not None:
            self._note_end(job, process)
        else:
            self._see(job)

    def _hold(self, job: QueuedJob, process: BackgroundJob) -> None:
        """End a process that takes more than it may."""
        limits = self._limits
        if job.started is not None and time.time() - job.started > limits.job_seconds:
            self._end(job, process, f"it took longer than {limits.job_seconds:g} s")
        elif self.shelf.memory(process) > limits.job_memory << 20:
            self._end(job, process, f"it took more than {limits.job_memory} MiB of memory", 0.0)

    def _end(self, job: QueuedJob, process: BackgroundJob, why: str, grace: float = _GRACE) -> None:
        """End its process, beside the looks: others are not to wait for that."""
        if job.id in self._stopping:
            return
        self._stopping.add(job.id)
        self.table.change(job.id, QueuedState.RUNNING, error=why)

        def stop() -> None:
            self.shelf.stop(process, grace)
            self._stopping.discard(job.id)
            self._changed.set()

        threading.Thread(target=stop, daemon=True).start()

    def _again(self, job: QueuedJob, process: BackgroundJob) -> None:
        """Take up a job whose process was killed; a comparison goes on where it was."""
        try:
            self.shelf.go_on(process)
        except InputError:  # another server of this store was quicker
            return
        now = time.time()
        self.table.change(job.id, QueuedState.RUNNING, started=now, attempts=job.attempts + 1)

    def _note_end(self, job: QueuedJob, process: BackgroundJob) -> None:
        progress = ProgressReader(process.progress_path).look()
        state = QueuedState(process.state.value)
        self.table.change(
            job.id,
            state,
            ended=process.ended or time.time(),
            exit_code=process.exit_code,
            error=progress.failed or job.error,
        )
