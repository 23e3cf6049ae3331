"""Jobs one after the other in a thread of their own, for front ends that stay usable."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from divergraph.jobs.job import JobCancelledError
from divergraph.jobs.progress import Progress
from divergraph.jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Stage:
    """What a job is at: *done* of *total* steps (None: not known), *note* says of what."""

    text: str = ""
    done: int = 0
    total: int | None = None
    note: str = ""


@dataclass(eq=False)
class QueuedJob:
    """A job of a queue; ``result`` or ``error`` is set at its end."""

    number: int
    title: str
    task: Callable[[Progress], object]
    state: JobState = JobState.WAITING
    stage: Stage = Stage()
    result: object = None
    error: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Stop it at its next step, or before it starts; from any thread."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        """True once the job is over."""
        return self._ended.wait(timeout)


class _Watched:
    """Progress that a job writes and others read; a step of a cancelled job raises."""

    def __init__(self, job: QueuedJob) -> None:
        self._job = job

    def stage(self, text: str, total: int | None = None) -> None:
        self._check()
        self._job.stage = Stage(text, 0, total)

    def step(self, amount: int = 1, note: str = "") -> None:
        self._check()
        was = self._job.stage
        self._job.stage = Stage(was.text, was.done + amount, was.total, note)

    def _check(self) -> None:
        if self._job._stop.is_set():
            raise JobCancelledError("the job was stopped")


class JobQueue:
    """Runs what is submitted, one at a time, in the order given."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: deque[QueuedJob] = deque()
        self._jobs: list[QueuedJob] = []
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def jobs(self) -> tuple[QueuedJob, ...]:
        """Every job there was, oldest first."""
        with self._lock:
            return tuple(self._jobs)

    def submit(self, title: str, task: Callable[[Progress], object]) -> QueuedJob:
        """Do *task* when those before it are over; it tells its progress to what it is
        given, and is stopped there if it was cancelled.

        Raises:
            RuntimeError: the queue is closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the queue is closed")
            job = QueuedJob(next(self._numbers), title, task)
            self._jobs.append(job)
            self._waiting.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
                self._thread.start()
            self._lock.notify()
        return job

    def close(self) -> None:
        """Cancel everything and wait until nothing runs."""
        with self._lock:
            self._closed = True
            for job in self._jobs:
                if not job.state.over:
                    job.cancel()
            self._lock.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._waiting:
                    if self._closed:
                        return
                    self._lock.wait()
                job = self._waiting.popleft()
            _run(job)


def _run(job: QueuedJob) -> None:
    if job._stop.is_set():
        job.state = JobState.CANCELLED
    else:
        job.state = JobState.RUNNING
        try:
            job.result = job.task(_Watched(job))
            job.state = JobState.DONE
        except JobCancelledError:
            job.state = JobState.CANCELLED
        except Exception as error:  # noqa: BLE001 - kept for whoever asks for the result
            job.error = error
            job.state = JobState.FAILED
    job._ended.set()
