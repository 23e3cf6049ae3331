"""Many tensor pairs measured as one job, by whoever the work is worth."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from divergraph.jobs.executors import BatchExecutor, SerialExecutor, chosen_executor, usable_cores
from divergraph.jobs.job import Job
from divergraph.jobs.progress import Progress
from divergraph.jobs.states import JobProgress
from divergraph.jobs.work import Work
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.tensor_pairs import AnyPair
from divergraph.metrics.pairs.work import MeasureWork, measuring_journal

LEAST_BYTES = 256 << 20
"""Smaller pairs are not worth being measured in parts."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Who measures: *jobs* processes (None: as many as the work is worth), or the Dask
    cluster at this address; ``resume`` takes up what a killed comparison has done. An
    ``executor`` that is there already goes before both, and stays open."""

    jobs: int | None = None
    cluster: str | None = None
    resume: bool = True
    executor: BatchExecutor | None = None


DEFAULT_WORKERS = Workers()


def measure_all(
    pairs: Sequence[AnyPair],
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
    work: MeasureWork | None = None,
    sizes: Sequence[int] | None = None,
) -> list[Measurement]:
    """The measurement of each pair in order, whoever did it. *sizes* are the bytes of the
    pairs where those are known without asking each."""
    work = work or MeasureWork()
    sizes = [pair.nbytes for pair in pairs] if sizes is None else sizes
    with ExitStack() as stack:
        executor = workers.executor
        huge: list[int] = []
        if executor is None:
            huge = _huge(sizes) if workers.cluster is None and workers.jobs != 1 else []
            parts = sum(sizes) // LEAST_BYTES if huge else 0
            executor = chosen_executor(
                max(len(pairs), parts), sum(sizes), workers.jobs, workers.cluster
            )
            stack.callback(executor.close)
        if not huge or executor.workers == 1:
            return _measured(pairs, work, sizes, executor, progress, workers.resume)
        from divergraph.metrics.pairs.split_pair import MeasureInParts

        # One after the other, each by all: the rest is too little to keep the others busy.
        found: dict[int, Measurement] = {}
        parted = MeasureInParts(executor, work.want)
        others = sorted(set(range(len(pairs))) - set(huge))
        for numbers, who, how in ((huge, SerialExecutor(), parted), (others, executor, None)):
            some = [pairs[number] for number in numbers]
            theirs = [sizes[number] for number in numbers]
            if some:
                done = _measured(some, work, theirs, who, progress, workers.resume, how)
                found.update(zip(numbers, done, strict=True))
        return [found[number] for number in range(len(pairs))]


def _measured(
    pairs: Sequence[AnyPair],
    work: MeasureWork,
    sizes: Sequence[int],
    executor: BatchExecutor,
    progress: Progress,
    resume: bool,
    parted: Work[AnyPair, Measurement] | None = None,
) -> list[Measurement]:
    def told(state: JobProgress, done: int) -> None:
        progress.step(done, state.rate_text())

    journal = measuring_journal(pairs, work) if resume else None
    job = Job(pairs, parted or work, sizes, executor=executor, journal=journal, watch=told)
    return job.run()


def _huge(sizes: Sequence[int]) -> list[int]:
    """Pairs so large that one process would be at them when all others are done."""
    whole = sum(sizes)
    return [
        number
        for number, size in enumerate(sizes)
        if size >= LEAST_BYTES and size * usable_cores() > whole
    ]
