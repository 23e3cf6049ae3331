"""Many tensor pairs measured as one job, by whoever the work is worth."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from divergraph.comparison.tensor_pairs import Measurement, TensorPair
from divergraph.comparison.work import MeasureWork, measuring_journal
from divergraph.jobs.executors import Executor, chosen_executor
from divergraph.jobs.job import Job
from divergraph.jobs.states import JobProgress
from divergraph.progress import Progress


@dataclass(frozen=True, slots=True)
class Workers:
    """Who measures: *jobs* processes (None: as many as the work is worth), or the Dask
    cluster at this address; ``resume`` takes up what a killed comparison has done. An
    ``executor`` that is there already goes before both, and stays open."""

    jobs: int | None = None
    cluster: str | None = None
    resume: bool = True
    executor: Executor | None = None


DEFAULT_WORKERS = Workers()


def measure_all(
    pairs: Sequence[TensorPair],
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
    work: MeasureWork | None = None,
) -> list[Measurement]:
    """The measurement of each pair in order, whoever did it."""
    work = work or MeasureWork()
    sizes = [pair.nbytes for pair in pairs]

    def told(state: JobProgress, done: int) -> None:
        progress.step(done, state.rate_text())

    executor = workers.executor
    journal = measuring_journal(pairs, work) if workers.resume else None
    with ExitStack() as stack:
        if executor is None:
            executor = chosen_executor(len(pairs), sum(sizes), workers.jobs, workers.cluster)
            stack.callback(executor.close)
        return Job(pairs, work, sizes, executor=executor, journal=journal, watch=told).run()
