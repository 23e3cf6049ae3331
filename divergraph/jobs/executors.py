"""Who does the batches of a job: this process, several beside it, or a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from typing import Protocol, TypeVar

from divergraph.jobs.work import Batch, Stopped, Work, run_batch
from graphstore.errors import InputError

T = TypeVar("T")
R = TypeVar("R")

_WORTH_BYTES = 64 << 20
_WORTH_ITEMS = 2000
"""Work below both is done before workers have started."""
_MOST_WORKERS = 32


class BatchExecutor(Protocol):
    """Does batches. ``workers`` is how many at once."""

    workers: int

    def results(
        self, work: Work[T, R], items: Sequence[T], batches: Iterable[Batch], stopped: Stopped
    ) -> Generator[tuple[Batch, list[R]], None, None]:
        """Each batch of *items* with its results, in the order they get done, until *stopped*.

        A batch may come back in parts. An item that takes its worker down with it comes
        back lost. Closing the iterator stops what is still running.
        """

    def close(self) -> None:
        """Let go of what it holds; it is not used afterwards."""


class SerialExecutor:
    """Does everything in this process, one batch after the other."""

    workers = 1

    def results(
        self, work: Work[T, R], items: Sequence[T], batches: Iterable[Batch], stopped: Stopped
    ) -> Generator[tuple[Batch, list[R]], None, None]:
        """Each batch in order."""
        for batch in batches:
            if stopped():
                return
            yield batch, run_batch(work, [items[number] for number in batch])

    def close(self) -> None:
        """Nothing is held."""


def chosen_executor(
    items: int, size: int, jobs: int | None = None, cluster: str | None = None
) -> BatchExecutor:
    """The executor for *items* of *size* bytes in all.

    *jobs* is the number of processes (1: this one), None for what the work is worth:
    small work is done here before workers would have started. *cluster* is the address
    of a Dask scheduler, or ``local`` or ``local:N``.

    Raises:
        InputError: both are given, or the cluster cannot be used.
    """
    if cluster is not None:
        if jobs is not None:
            raise InputError("--jobs and --cluster cannot go together")
        from divergraph.jobs.dask_cluster import DaskExecutor

        return DaskExecutor(cluster)
    if jobs is None:
        worth = size >= _WORTH_BYTES or items >= _WORTH_ITEMS
        jobs = usable_cores() if worth else 1
    jobs = min(jobs, items)
    if jobs <= 1 or sys.platform == "win32":  # workers inherit a descriptor, which it cannot
        return SerialExecutor()
    from divergraph.jobs.processes import ProcessExecutor

    return ProcessExecutor(jobs)


def usable_cores() -> int:
    """The processors this process may use, as far as workers are worth it."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return min(cores, _MOST_WORKERS)
