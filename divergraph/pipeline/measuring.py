"""All pairs of a comparison measured as one job, and judged."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.comparison.many_pairs import DEFAULT_WORKERS, Workers, measure_all
from divergraph.comparison.thresholds import Thresholds
from divergraph.pipeline.pairing import Pair
from divergraph.pipeline.tensor_comparison import judged, tensor_pair
from divergraph.progress import Progress
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
    found = iter(measure_all([tensor_pair(pair) for pair in pairs], progress, workers))
    return [
        item if isinstance(item, Comparison) else judged(item, next(found), thresholds)
        for item in items
    ]
