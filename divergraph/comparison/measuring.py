"""All pairs of a comparison measured as one job, and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from divergraph.comparison.tensor_comparison import judged
from divergraph.graphs.pairing import Pair
from divergraph.jobs.progress import Progress
from divergraph.metrics.limits.thresholds import Thresholds
from divergraph.metrics.pairs.detailed_metrics import detailed_metrics
from divergraph.metrics.pairs.many_pairs import DEFAULT_WORKERS, Workers, measure_all
from graphstore.model import Comparison


def compare_all(
    items: Sequence[Pair | Comparison],
    thresholds: Thresholds,
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
) -> list[Comparison]:
    """The comparison of each item in order; what already is one stays as it is."""
    pairs = [item for item in items if isinstance(item, Pair)]
    progress.stage("comparing tensors", len(pairs))
    tensors = [pair.tensors for pair in pairs]
    found = measure_all(tensors, progress, workers)
    compared = [
        judged(pair, measured, thresholds) for pair, measured in zip(pairs, found, strict=True)
    ]
    over = (
        (number, tensors[number], found[number])
        for number, comparison in enumerate(compared)
        if comparison.over
    )
    for number, figures in detailed_metrics(over):
        compared[number] = replace(compared[number], figures=figures)
    done = iter(compared)
    return [item if isinstance(item, Comparison) else next(done) for item in items]
