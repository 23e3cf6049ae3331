"""Who takes jobs from the queue, starts their processes and sees how they end.

A process outlives the server. The folder of a job has the job's name, and its lock is held as long
as a process of it lives: so a server that comes back finds what runs, starts nothing twice, and
takes up what was lost.
"""

from __future__ import annotations

import logging
import threading
import time

from divergraph.jobs.background.progress_file import ProgressReader
from divergraph.jobs.background.shelf import BackgroundJob, BackgroundState, JobShelf
from divergraph.server.jobs.job_table import JobTable, QueuedJob, QueuedState
from divergraph.server.settings import Limits
from graphstore.errors import DivergraphError, InputError

log = logging.getLogger("divergraph.server.jobs")
_LOOK_SECONDS = 0.2
_ATTEMPTS = 3
"""So often is a job begun whose process ends without a word."""


class JobRunner:
    """Runs the jobs of ``table`` in folders of ``shelf``, as many at once as *limits* allow."""

    def __init__(self, table: JobTable, shelf: JobShelf, store: str, limits: Limits) -> None:
        self.table, self.shelf = table, shelf
        self._store, self._limits = store, limits
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin; jobs that an ended server had started are found again."""
        self._thread.start()

    def end(self) -> None:
        """Start nothing more; processes that run go on."""
        self._ending.set()
        self._thread.join()

    def stop(self, job: QueuedJob) -> None:
        """End a job: off the queue, or its process. Waits for that."""
        if not self.table.cancel(job.id):
            process = self.shelf.named(job.id)
            if process is not None:
                self.shelf.stop(process)

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            try:
                self.look()
            except (DivergraphError, OSError) as error:  # a full disk: it may have room again
                log.warning("jobs: %s", error)

    def look(self) -> None:
        """See what has ended, and start what may run."""
        for job in self.table.jobs(QueuedState.RUNNING):
            self._see(job)
        room = self._limits.jobs - len(self.table.jobs(QueuedState.RUNNING))
        for _ in range(room):
            claimed = self.table.claim(self._limits.jobs_of_one)
            if claimed is None:
                return
            self._begin(claimed)

    def _begin(self, job: QueuedJob) -> None:
        try:
            self.shelf.start(job.words, self._store, self.shelf.root, name=job.id)
        except (DivergraphError, OSError) as error:
            said = f"it could not be started: {error}"
            self.table.change(job.id, QueuedState.LOST, ended=time.time(), error=said)

    def _see(self, job: QueuedJob) -> None:
        process = self.shelf.named(job.id)
        if process is None:
            # Claimed by a server that ended before it had a folder.
            if job.started is not None and time.time() - job.started > self._limits.claim_seconds:
                self.table.change(job.id, QueuedState.QUEUED)
        elif process.state is BackgroundState.RUNNING:
            if job.started is not None and time.time() - job.started > self._limits.job_seconds:
                self.shelf.stop(process)
        elif process.state is BackgroundState.LOST and job.attempts < _ATTEMPTS:
            self._again(job, process)
        else:
            self._note_end(job, process)

    def _again(self, job: QueuedJob, process: BackgroundJob) -> None:
        """Take up a job whose process was killed; a comparison goes on where it was."""
        try:
            self.shelf.go_on(process)
        except InputError:  # another server of this store was quicker
            return
        now = time.time()
        self.table.change(job.id, QueuedState.RUNNING, started=now, attempts=job.attempts + 1)

    def _note_end(self, job: QueuedJob, process: BackgroundJob) -> None:
        told = ProgressReader(process.progress_path).look()
        state = QueuedState(process.state.value)
        self.table.change(
            job.id,
            state,
            ended=process.ended or time.time(),
            exit_code=process.exit_code,
            error=told.failed,
        )
