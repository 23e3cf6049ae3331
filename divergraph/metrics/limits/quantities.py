"""The quantities a limit can be set on: the metrics, and figures of the same sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from divergraph.metrics.sums import EPSILON
from graphstore.model import Figures, Metric, MetricSet

Getter: TypeAlias = Callable[[MetricSet, Figures | None], float]

WORST_ERROR = "worst_error"
PEAK_SHARE = 0.25
"""Share of golden's largest |y| that errors are divided by where it exceeds the root mean square:
the noise of tensors with a few large values is in these."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number a limit can be set on. ``minimum`` is True where larger is better, ``low`` and
    ``high`` bound sensible limits, ``get`` gives NaN where the quantity is not known. ``shown`` is
    the one of the ten metrics that is marked when this one is over."""

    name: str
    get: Getter
    shown: Metric
    minimum: bool = False
    low: float = 0.0
    high: float = math.inf


def golden_root(metrics: MetricSet) -> float:
    """Root mean square of golden's values; NaN if it is not known."""
    _, _, mean, deviation = metrics.standard_deviation
    return math.hypot(mean, deviation)


def golden_peak(figures: Figures) -> float:
    """The largest finite |y|."""
    return max(abs(figures.golden.low), abs(figures.golden.high))


def worst_error(metrics: MetricSet, figures: Figures | None) -> float:
    """max |x - y| over golden's root mean square, or over a quarter of its largest |y| if
    that is more. Without figures the largest |y| is taken for 8 times the root mean square."""
    root = golden_root(metrics)
    peak = 8.0 * root if figures is None else golden_peak(figures)
    scale = max(root, PEAK_SHARE * peak)
    # Where golden is zero by the metrics' definition it has no scale.
    if not root * math.sqrt(metrics.elements) > EPSILON:
        return math.nan
    return metrics.max_absolute_error / scale


def _finite_error(figures: Figures) -> float:
    if figures.worst < 0:
        return 0.0
    return abs(figures.worst_device - figures.worst_golden)


def _share(count: Callable[[Figures], int], *, of_rest: bool = False) -> Getter:
    """A quantity: the share of the elements that *count* counts, or of the others."""

    def get(metrics: MetricSet, figures: Figures | None) -> float:
        if figures is None or not metrics.elements:
            return math.nan
        share = count(figures) / metrics.elements
        return 1.0 - share if of_rest else share

    return get


def _figure(pick: Callable[[Figures], float | None]) -> Getter:
    def get(_metrics: MetricSet, figures: Figures | None) -> float:
        value = None if figures is None else pick(figures)
        return math.nan if value is None else value

    return get


def _worst_absolute(metrics: MetricSet, figures: Figures | None) -> float:
    return metrics.max_absolute_error if figures is None else _finite_error(figures)


def _of_metric(metric: Metric) -> Quantity:
    name = metric.value

    def get(metrics: MetricSet, _figures: Figures | None) -> float:
        value: float = getattr(metrics, name)
        return value

    if metric is Metric.COSINE_SIMILARITY:
        return Quantity(name, get, metric, minimum=True, low=-1.0, high=1.0)
    return Quantity(name, get, metric)


_WORST = Metric.MAX_ABSOLUTE_ERROR
_ENERGY = Metric.RELATIVE_EUCLIDEAN_DISTANCE

_ALL = (
    # The first one over its limit is named as the reason, so the plainest come first.
    _of_metric(Metric.RELATIVE_EUCLIDEAN_DISTANCE),
    _of_metric(Metric.COSINE_SIMILARITY),
    Quantity(WORST_ERROR, worst_error, _WORST),
    *(
        _of_metric(metric)
        for metric in Metric
        if metric
        not in (
            Metric.RELATIVE_EUCLIDEAN_DISTANCE,
            Metric.COSINE_SIMILARITY,
            Metric.STANDARD_DEVIATION,
        )
    ),
    Quantity("bad_share", _share(attrgetter("bad")), _WORST, high=1.0),
    Quantity(
        "close_share", _share(attrgetter("bad"), of_rest=True), _WORST, minimum=True, high=1.0
    ),
    Quantity("equal_share", _share(attrgetter("equal")), _WORST, minimum=True, high=1.0),
    Quantity("worst_absolute_error", _worst_absolute, _WORST),
    Quantity("snr", _figure(attrgetter("snr")), _ENERGY, minimum=True, low=-math.inf),
    Quantity("psnr", _figure(attrgetter("psnr")), _ENERGY, minimum=True, low=-math.inf),
    Quantity("max_ulp", _figure(attrgetter("max_ulp")), _WORST),
)

QUANTITIES: Mapping[str, Quantity] = {quantity.name: quantity for quantity in _ALL}
"""Everything that can have a limit, by name. ``standard_deviation`` cannot."""
