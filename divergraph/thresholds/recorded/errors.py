"""How far the tensors of a call are off, and by how much it makes the error of its inputs more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from divergraph.metrics.limits.quantities import worst_error
from divergraph.metrics.statistics import BY_STATISTICS, CHECKSUMS_DIFFER
from graphstore.model import Comparison, Metric

_NO_ERROR = 2.0**-9
"""What one rounding to bfloat16 is: an error no larger needs no cause, nor does what it becomes."""
_NO_WORST = 2.0**-8
_ALTOGETHER = 0.5


class Error(NamedTuple):
    """Relative to golden: the distance as a whole, and of the worst element."""

    distance: float
    worst: float

    def over(self, before: Error, measured: Iterable[Metric]) -> float:
        """How many times the error *before* this is, by those metrics that were *measured* to be
        over a limit; all count where none is. Of what is wrong altogether nothing is more wrong: a
        square of a tensor that is 10 times too large is off by 99 times itself."""
        if before.distance >= _ALTOGETHER:
            return 1.0
        distance_times = self.distance / max(before.distance, _NO_ERROR)
        single = self.worst / max(before.worst, _NO_WORST)
        kinds = {metric is Metric.MAX_ABSOLUTE_ERROR for metric in measured}
        if kinds == {True}:
            return single
        return distance_times if kinds == {False} else max(distance_times, single)

    def over_choices(self, before: Error) -> float:
        """How many times the error this is that choices between near equals give: of values that
        are off by a share, about that share is chosen otherwise, and is then wrong altogether."""
        if before.distance >= _ALTOGETHER:
            return 1.0
        return self.distance / math.sqrt(max(before.distance, _NO_ERROR))


NONE = Error(0.0, 0.0)
BROKEN = Error(math.inf, math.inf)


def most(errors: Iterable[Error]) -> Error:
    """The largest of *errors* by either measure."""
    largest = NONE
    for error in errors:
        largest = Error(max(largest.distance, error.distance), max(largest.worst, error.worst))
    return largest


def error_of(item: Comparison) -> Error | None:
    """The error of a compared tensor; None where nothing tells how large it is."""
    metrics, figures = item.metrics, item.figures
    if metrics is None:
        return None
    if metrics.device_nonfinite != metrics.golden_nonfinite:
        return BROKEN
    distance, single = metrics.relative_euclidean_distance, worst_error(metrics, figures)
    if metrics.device_nonfinite and figures is not None:
        if figures.worst >= 0 and not _are_finite(figures.worst_device, figures.worst_golden):
            return BROKEN  # as many as golden's, in other places
        distance, single = 10.0 ** (-figures.snr / 20.0), math.nan
    if math.isnan(distance):
        distance = metrics.different / max(metrics.elements, 1)
    return Error(distance, distance if math.isnan(single) else single)


def _are_finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


def is_bound(item: Comparison) -> bool:
    """Whether statistics alone tell the error, so that it may be larger."""
    return BY_STATISTICS in item.detail


def is_unequal(item: Comparison) -> bool:
    """Whether checksums say that the tensors differ."""
    return item.detail.endswith(CHECKSUMS_DIFFER)
