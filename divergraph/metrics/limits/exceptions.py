"""Exceptions to the limits: what never passes, and what a limit must not fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from divergraph.metrics.limits import notes
from divergraph.metrics.limits.defaults import (
    INTEGERS,
    NUMERICAL_ZERO,
    ONE_STEP,
    SMALLEST_STEP,
    UNIT,
    USUAL_UNIT,
)
from divergraph.metrics.limits.quantities import golden_peak, golden_root
from divergraph.metrics.limits.rules import EffectiveLimits, Limit
from graphstore.model import DType, Figures, Level, Metric, MetricSet

NEGLIGIBLE = 1e-6
"""Largest absolute error let pass where golden is all zero, so no ratio is defined."""

SUBNORMAL: Mapping[DType, float] = {DType.FLOAT16: 2.0**-14}
"""By type the smallest normal number: noise below it is only worth a warning where golden is all
zero."""

TINY = 8
"""With up to so many elements sums say little, so single elements are judged, too."""

TINY_RATIO = 0.5
_TINY_UNITS = 16
_GRID_ROOT = 4.0  # a root mean square of 4 steps: quantised values, not flags or labels

_DIFFERENT = "always: NaN or infinities are not the same on both sides"
_HIDDEN = "always: the same NaN or infinities on both sides hide the rest"
_ZERO = f"always: golden is all zero, the device is above {NEGLIGIBLE:g}"
_TINY = f"default.tiny: max_relative_error > {TINY_RATIO:g} among at most {TINY} elements"
_TINY_INTEGERS = f"default.tiny: at most {TINY} integers and not all equal"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The result of a fixed check: its level, the metrics it marks, its name."""

    level: Level
    shown: tuple[Metric, ...]
    text: str


def of_nonfinite(
    metrics: MetricSet, figures: Figures | None, limits: EffectiveLimits
) -> Fixed | MetricSet:
    """The result if NaN and infinities decide, else the metrics of the finite elements."""
    if figures is not None and _are_only_large(figures):
        return _finite_part(metrics, figures)
    if _differs_in_nonfinite(metrics):
        return Fixed(Level.FAIL, _undefined(metrics, limits), _DIFFERENT)
    if figures is None:
        return Fixed(Level.WARN, _undefined(metrics, limits), _HIDDEN)
    if figures.equal == metrics.elements:
        return Fixed(Level.PASS, (), f"{limits.label}: all values are equal")
    return _finite_part(metrics, figures)


def fixed(
    metrics: MetricSet,
    figures: Figures | None,
    limits: EffectiveLimits,
    device: DType | None,
    golden: DType | None,
) -> Fixed | None:
    """The result of the fixed checks of a tensor without NaN and infinities; None if none
    applies."""
    if _golden_is_zero(metrics):
        by_definition = not math.isnan(metrics.cosine_similarity)
        blamed = Metric.RELATIVE_EUCLIDEAN_DISTANCE if by_definition else Metric.COSINE_SIMILARITY
        if device is not None and metrics.max_absolute_error < SUBNORMAL.get(device, 0.0):
            return Fixed(Level.WARN, (blamed,), f"{_ZERO} (warn: in {device} that is subnormal)")
        return Fixed(Level.FAIL, (blamed,), _ZERO)
    if metrics.different:
        return _of_booleans(metrics, limits)
    if 0 < metrics.elements <= TINY and limits.built_in:
        return _of_tiny(metrics, figures, limits, device, golden)
    return None


def excused(
    over: list[Limit],
    past: list[Limit],
    metrics: MetricSet,
    device: DType | None,
    coarser: DType | None,
) -> tuple[list[Limit], list[Limit], str]:
    """The limits that count of those *over* their fail and *past* their warning limit, and the rule
    that excused the others. Only built-in limits are excused: a user's limits mean what they
    say."""
    error = metrics.max_absolute_error
    if Metric.MAX_ABSOLUTE_ERROR in metrics.notes:  # a lower bound, or of nothing
        return over, past, ""
    if coarser in ONE_STEP and error <= 1.0 and golden_root(metrics) >= _GRID_ROOT:
        text = f"default.{coarser}: one step of the grid at most"
        return _of_file(over), _of_file(past), text
    step = NUMERICAL_ZERO if device is None else SMALLEST_STEP.get(device, NUMERICAL_ZERO)
    if error <= step:
        small = [limit for limit in over if limit.rule.built_in]
        return _of_file(over), [*small, *past], ""
    return over, past, ""


def _of_file(limits: list[Limit]) -> list[Limit]:
    return [limit for limit in limits if not limit.rule.built_in]


def _are_only_large(figures: Figures) -> bool:
    """True for float64 values that float32, of which the metrics are, cannot hold."""
    device, golden = figures.device, figures.golden
    return not (device.nans or device.infinities or golden.nans or golden.infinities)


def _differs_in_nonfinite(metrics: MetricSet) -> bool:
    if metrics.device_nonfinite != metrics.golden_nonfinite:
        return True
    note = metrics.notes.get(Metric.MAX_ABSOLUTE_ERROR, "")
    return not note.startswith(notes.SAME_NONFINITE)


def _undefined(metrics: MetricSet, limits: EffectiveLimits) -> tuple[Metric, ...]:
    """Metrics with a limit that have no finite value; the largest error if none has."""
    limited = {quantity.name for quantity, fail, _ in limits.checks if fail is not None}
    limited |= {limit.quantity.name for limit in limits.supporting}
    undefined = tuple(m for m in Metric if m.value in limited and not _is_finite(metrics.value(m)))
    return undefined or (Metric.MAX_ABSOLUTE_ERROR,)


def _is_finite(value: float | tuple[float, ...]) -> bool:
    return all(map(math.isfinite, value if isinstance(value, tuple) else (value,)))


def _finite_part(metrics: MetricSet, figures: Figures) -> MetricSet:
    """What the figures say of the elements that are finite on both sides."""
    mean, deviation = figures.golden.mean, figures.golden.std
    error = 0.0
    if figures.worst >= 0:
        error = abs(figures.worst_device - figures.worst_golden)
    metric_notes: Mapping[Metric, str] = {}
    distance = 10.0 ** (-figures.snr / 20.0)
    if mean == 0.0 and deviation == 0.0:
        distance, metric_notes = 0.0, {Metric.RELATIVE_EUCLIDEAN_DISTANCE: notes.GOLDEN_ZERO}
    return replace(
        metrics,
        relative_euclidean_distance=distance,
        max_absolute_error=error,
        standard_deviation=(figures.device.mean, figures.device.std, mean, deviation),
        device_nonfinite=0,
        golden_nonfinite=0,
        notes=metric_notes,
    )


def _golden_is_zero(metrics: MetricSet) -> bool:
    """Golden holds zeros only and the device values that are not negligible."""
    if metrics.notes.get(Metric.RELATIVE_EUCLIDEAN_DISTANCE) != notes.GOLDEN_ZERO:
        return False
    return not metrics.max_absolute_error <= NEGLIGIBLE


def _of_booleans(metrics: MetricSet, limits: EffectiveLimits) -> Fixed | None:
    for quantity, fail, warn in limits.checks:
        if quantity.name != Metric.COSINE_SIMILARITY:
            continue
        share = metrics.different / metrics.elements
        for limit, level in ((fail, Level.FAIL), (warn, Level.WARN)):
            if limit is not None and share > 1.0 - limit.bound:
                text = f"{limit.text}, of flags: more than {1.0 - limit.bound:.2g} differ"
                return Fixed(level, (Metric.COSINE_SIMILARITY,), text)
    return None


def _of_tiny(
    metrics: MetricSet,
    figures: Figures | None,
    limits: EffectiveLimits,
    device: DType | None,
    golden: DType | None,
) -> Fixed | None:
    """The result for a tensor of few elements, where one that is far off its own value does not
    show in sums with larger ones."""
    error = metrics.max_absolute_error
    if (device in INTEGERS or golden in INTEGERS) and error >= 0.5:  # by statistics: rounded
        return Fixed(Level.FAIL, (Metric.MAX_ABSOLUTE_ERROR,), _TINY_INTEGERS)
    if Metric.MAX_RELATIVE_ERROR in limits.own or not metrics.max_relative_error > TINY_RATIO:
        return None
    peak = golden_root(metrics) * math.sqrt(metrics.elements)
    if figures is not None:
        peak = golden_peak(figures)
    unit = max(UNIT.get(dtype, USUAL_UNIT) if dtype else USUAL_UNIT for dtype in (device, golden))
    if error > _TINY_UNITS * unit * peak:
        return Fixed(Level.FAIL, (Metric.MAX_RELATIVE_ERROR,), _TINY)
    if error > unit * peak:
        return Fixed(Level.WARN, (Metric.MAX_RELATIVE_ERROR,), f"{_TINY} (warn)")
    return None
