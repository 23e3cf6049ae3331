"""The metrics of a tensor in one line; loads nothing else of the command line."""

from __future__ import annotations

from divergraph.text.words import figure_text, known
from graphstore.model import Metric, MetricSet

_WIDTH = len("cos 1.000000  rel 0.000e+00  max|d| 0.000e+00")


def metric_text(metrics: MetricSet | None) -> str:
    """The three metrics that say most, each of one width; empty for none."""
    if metrics is None:
        return ""
    if metrics.shapes_differ:
        return f"{'another shape':<{_WIDTH}}"
    cosine = known(metrics, Metric.COSINE_SIMILARITY)
    digits = 5 if cosine is not None and cosine < 0 else 6
    alike = figure_text(metrics, Metric.COSINE_SIMILARITY, f".{digits}f")
    error = figure_text(metrics, Metric.RELATIVE_EUCLIDEAN_DISTANCE)
    worst = figure_text(metrics, Metric.MAX_ABSOLUTE_ERROR)
    return f"cos {alike:>8}  rel {error:>9}  max|d| {worst:>9}"
