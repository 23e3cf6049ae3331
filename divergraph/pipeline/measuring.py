"""All pairs of a comparison measured as one job, and judged."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from divergraph.comparison.tensor_pairs import Measurement, TensorPair
from divergraph.comparison.thresholds import Thresholds
from divergraph.comparison.work import MeasureWork, measuring_journal
from divergraph.jobs import Job, JobProgress, chosen_executor
from divergraph.pipeline.pairing import Pair
from divergraph.pipeline.tensor_comparison import judged, tensor_pair
from divergraph.progress import Progress
from graphstore.model import Comparison


@dataclass(frozen=True, slots=True)
class Workers:
    """Who measures: *jobs* processes (None: as many as the work is worth), or the Dask
    cluster at this address; ``resume`` takes up what a killed comparison has done."""

    jobs: int | None = None
    cluster: str | None = None
    resume: bool = True


DEFAULT_WORKERS = Workers()


def compare_all(
    items: Sequence[Pair | Comparison],
    thresholds: Thresholds,
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
) -> list[Comparison]:
    """The comparison of each item in order; what already is one stays as it is."""
    pairs = [item for item in items if isinstance(item, Pair)]
    progress.stage("comparing tensors", len(pairs))
    found = iter(measure_all([tensor_pair(pair) for pair in pairs], progress, workers))
    return [
        item if isinstance(item, Comparison) else judged(item, next(found), thresholds)
        for item in items
    ]


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

    executor = chosen_executor(len(pairs), sum(sizes), workers.jobs, workers.cluster)
    journal = measuring_journal(pairs, work) if workers.resume else None
    with closing(executor):
        return Job(pairs, work, sizes, executor=executor, journal=journal, watch=told).run()
