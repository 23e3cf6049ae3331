"""The metrics of a tensor in one line; loads nothing else of the command line."""

from __future__ import annotations

from divergraph.text.numbers import short
from divergraph.text.words import known
from graphstore.model import Metric, MetricSet


def metric_text(metrics: MetricSet | None) -> str:
    """The three metrics that say most, each of one width; empty for none."""
    if metrics is None:
        return ""
    cosine = known(metrics, Metric.COSINE_SIMILARITY)
    digits = 5 if cosine is not None and cosine < 0 else 6
    error = metrics.relative_euclidean_distance
    worst = metrics.max_absolute_error
    return f"cos {short(cosine, f'.{digits}f'):>8}  rel {short(error):>9}  max|d| {short(worst):>9}"
