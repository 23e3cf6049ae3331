"""How much the results of one op say."""

from __future__ import annotations

import math

from divergraph.ask.columns import GUILT_RANKS
from graphstore.model import ErrorSplit, MetricSet


def split_weight(split: ErrorSplit) -> tuple[int, float]:
    """Sort key of how much a split says against an op: its guilt, then its suspicion."""
    suspicion = -1.0 if split.suspicion is None else split.suspicion
    return GUILT_RANKS[split.guilt], suspicion


def relative_error(metrics: MetricSet | None) -> float:
    """The relative error, NaN where none is known."""
    return math.nan if metrics is None else metrics.relative_euclidean_distance
