"""One job: items, who works on them, how far it is, and how to stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from divergraph.jobs.executors import BatchExecutor, SerialExecutor
from divergraph.jobs.journal import Journal
from divergraph.jobs.work import BATCH_BYTES, BATCH_ITEMS, Batch, Work, in_batches

T = TypeVar("T")
R = TypeVar("R")

_PARTS_A_WORKER = 4
"""Batches a worker gets at least, so that none is left with all of the last work."""
_SERIAL_ITEMS = 20
"""Here a batch costs nothing, and between two one can be stopped and seen."""


class JobCancelledError(Exception):
    """The job was stopped by :meth:`Job.cancel`."""


class Job(Generic[T, R]):
    """Turns *items* into results with *work*. *sizes* are the bytes of each item.

    With a *journal* what an earlier job of the same items has done is not done again, and
    what this one does is kept in case it is killed.
    """

    def __init__(
        self,
        items: Sequence[T],
        work: Work[T, R],
        sizes: Sequence[int],
        *,
        executor: BatchExecutor | None = None,
        journal: Journal[R] | None = None,
        watch: Callable[[JobProgress, int], None] | None = None,
        alone: bool = False,
    ) -> None:
        """*watch* hears of every batch that is done, with the number of its items.

        With *alone* a batch is one item: for items that take seconds each.
        """
        self._items = items
        self._work = work
        self._sizes = sizes
        self._executor: BatchExecutor = executor or SerialExecutor()
        self._journal = journal
        self._watch = watch
        self._alone = alone
        self._cancelled = threading.Event()
        self._started = 0.0
        self._progress = JobProgress(JobState.WAITING, 0, len(items), 0, sum(sizes))

    @property
    def progress(self) -> JobProgress:
        """How far the job is; may be read from any thread."""
        return self._progress

    def cancel(self) -> None:
        """Stop soon; from any thread. :meth:`run` then raises JobCancelledError."""
        self._cancelled.set()

    def run(self) -> list[R]:
        """The results in the order of the items. A job runs once.

        Raises:
            JobCancelledError: :meth:`cancel` was called.
        """
        results = dict(self.results())
        self.forget()
        return [results[number] for number in range(len(self._items))]

    def results(self) -> Iterator[tuple[int, R]]:
        """The number and result of each item as it gets done; none is held here.

        What an earlier job has done comes first. The journal stays until :meth:`forget`.

        Raises:
            JobCancelledError: :meth:`cancel` was called.
        """
        self._started = time.monotonic()
        results: dict[int, R] = (
            {} if self._journal is None else self._journal.done(len(self._items))
        )
        count, weight = len(results), sum(self._sizes[number] for number in results)
        self._advance(
            state=JobState.RUNNING,
            done=count,
            resumed=count,
            bytes_done=weight,
            bytes_resumed=weight,
        )
        todo = [number for number in range(len(self._items)) if number not in results]
        try:
            if results and self._watch is not None:
                self._watch(self._progress, len(results))
            while results:
                yield results.popitem()
            yield from self._work_off(todo)
        except BaseException:
            if self._journal is not None:
                self._journal.close()
            stopped = self._cancelled.is_set()
            self._advance(state=JobState.CANCELLED if stopped else JobState.FAILED)
            raise
        self._advance(state=JobState.DONE)

    def forget(self) -> None:
        """Remove the journal: the results are where they should be."""
        if self._journal is not None:
            self._journal.remove()

    def _work_off(self, todo: Sequence[int]) -> Iterator[tuple[int, R]]:
        batches = in_batches(
            todo, self._sizes, most_bytes=BATCH_BYTES, most_items=self._batch_items(len(todo))
        )
        announced = map(self._announced, batches)
        done = self._executor.results(self._work, self._items, announced, self._cancelled.is_set)
        with closing(done):
            for batch, batch_results in done:
                fresh = dict(zip(batch, batch_results, strict=True))
                if self._journal is not None:
                    self._journal.add(fresh)
                weight = sum(self._sizes[number] for number in batch)
                was = self._progress
                self._advance(done=was.done + len(batch), bytes_done=was.bytes_done + weight)
                if self._watch is not None:
                    self._watch(self._progress, len(batch))
                yield from fresh.items()
        if self._cancelled.is_set():
            raise JobCancelledError("the job was stopped")

    def _announced(self, batch: Batch) -> Batch:
        if self._journal is not None:
            self._journal.starting(batch)
        return batch

    def _batch_items(self, count: int) -> int:
        """The most items of a batch, of *count* to do."""
        workers = self._executor.workers
        if self._alone:
            return 1
        if workers == 1:
            return _SERIAL_ITEMS
        return max(1, min(BATCH_ITEMS, -(-count // (workers * _PARTS_A_WORKER))))

    def _advance(self, **changed: Any) -> None:
        seconds = time.monotonic() - self._started
        self._progress = replace(self._progress, seconds=seconds, **changed)


class JobState(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """True if nothing will change any more."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A look at a job: items and bytes, ``resumed`` items were done by an earlier job that
    was stopped. ``seconds`` since the start."""

    state: JobState
    done: int
    total: int
    bytes_done: int
    bytes_total: int
    resumed: int = 0
    bytes_resumed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Bytes a second, without what was resumed; None before anything is done."""
        done = self.bytes_done - self.bytes_resumed
        return done / self.seconds if done > 0 and self.seconds > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at this rate; None before there is one."""
        rate = self.rate
        return None if rate is None else max(self.bytes_total - self.bytes_done, 0) / rate

    def rate_text(self) -> str:
        """``214 MB/s``, empty before there is a rate."""
        rate = self.rate
        if rate is None:
            return ""
        for unit in ("B", "kB", "MB"):
            if rate < 1000:
                return f"{rate:.3g} {unit}/s"
            rate /= 1000
        return f"{rate:.3g} GB/s"
