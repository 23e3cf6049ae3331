"""The metrics of a tensor in one line; loads nothing else of the command line."""

from __future__ import annotations

import math

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
    return (
        f"cos {_short(cosine, 8, f'.{digits}f')}  "
        f"rel {_short(error, 9, '.3g')}  max|d| {_short(worst, 9, '.3g')}"
    )


def _short(value: float | None, width: int, form: str) -> str:
    if value is None:
        return "-".rjust(width)
    text = "NaN" if math.isnan(value) else format(value, form)
    return text.rjust(width)
