"""The ten metrics of a tensor pair, as msaccucmp defines them.

Both sides are flattened in C order and cast to float32; sums are float64 (the reference
sums in float32, so its last digits differ). Memory does not grow with the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from divergraph.metrics.flat import blocks, flat
from divergraph.metrics.limits import notes
from divergraph.metrics.sums import EPSILON, DistributionScale, Sums
from divergraph.metrics.sweep import BLOCK
from divergraph.values.array_types import Array
from graphstore.model import Metric, MetricSet

_FLOAT16_MAX_BITS = 0x7BFF
_FLOAT16_INFINITY_BITS = 0x7C00

_NOT_FOR_BOOLEANS: tuple[Metric, ...] = tuple(
    metric
    for metric in Metric
    if metric not in (Metric.COSINE_SIMILARITY, Metric.RELATIVE_EUCLIDEAN_DISTANCE)
)


class LengthMismatchError(ValueError):
    """The two sides do not have the same number of elements."""


class UnsupportedElementError(ValueError):
    """The elements are no real numbers: complex, text, objects or records."""


def check_sides(device: Array, golden: Array) -> None:
    """Refuse sides that cannot be compared, as :func:`divergraph.metrics.measure.measure` says."""
    if device.size != golden.size:
        raise LengthMismatchError(
            f"device has {device.size} and golden {golden.size} elements: they cannot be compared"
        )
    for side, array in (("device", device), ("golden", golden)):
        if array.dtype.kind not in "biuf":
            raise UnsupportedElementError(f"{side} elements of type {array.dtype} have no metrics")


def scales_for_divergence(
    sums: Sums, both_bool: bool
) -> tuple[DistributionScale, DistributionScale] | None:
    """How both sides become distributions; None if the divergence needs no second sweep."""
    if both_bool or not sums.finite or sums.square_error == 0.0:
        return None
    return DistributionScale.of(sums.device), DistributionScale.of(sums.golden)


def overflow_flag(device: Array) -> bool | None:
    """True if some |x| reached 65504, the largest float16; None for other types."""
    if device.dtype.kind != "f" or device.dtype.itemsize != 2:
        return None
    values = flat(device)
    for _, block, _ in blocks(BLOCK, values, values):
        bits = block.astype(np.float16, copy=False).view(np.uint16) & 0x7FFF
        if ((bits >= _FLOAT16_MAX_BITS) & (bits <= _FLOAT16_INFINITY_BITS)).any():
            return True
    return False


class Summed(NamedTuple):
    """What a kernel is computed from: the sums of the first sweep, the divergence of the second,
    and the notes, to which it adds what it has to say of its metric."""

    sums: Sums
    divergence: float
    said: dict[Metric, str]


KERNELS: Mapping[Metric, Callable[[Summed], float]] = {
    Metric.COSINE_SIMILARITY: lambda of: _cosine(of.sums, of.said),
    Metric.MAX_ABSOLUTE_ERROR: lambda of: of.sums.worst_absolute,
    Metric.ACCUMULATED_RELATIVE_ERROR: lambda of: of.sums.relative_error,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE: lambda of: _relative_euclidean(of.sums, of.said),
    Metric.KULLBACK_LEIBLER_DIVERGENCE: lambda of: (
        0.0 if abs(of.divergence) < EPSILON else of.divergence
    ),
    Metric.MEAN_ABSOLUTE_ERROR: lambda of: of.sums.absolute_error / of.sums.elements,
    Metric.ROOT_MEAN_SQUARE_ERROR: lambda of: _root(of.sums.square_error / of.sums.elements),
    Metric.MAX_RELATIVE_ERROR: lambda of: of.sums.worst_relative,
    Metric.MEAN_RELATIVE_ERROR: lambda of: of.sums.relative_error / of.sums.elements,
}
"""How each metric of one number follows from the sums over a pair. Many small pairs are computed in
columns by the same formulas (``pairs/small_table.py``), what is not there by these."""

_BY_FIELD = tuple((metric.value, kernel) for metric, kernel in KERNELS.items())
"""The same by the names of fields: texts are hashed in half the time that enumerations take."""


def ten_metrics(sums: Sums, divergence: float, both_bool: bool) -> MetricSet:
    """The metrics that follow from the sums of a sweep and the divergence."""
    metric_notes: dict[Metric, str] = {}
    count, summed = sums.elements, Summed(sums, divergence, metric_notes)
    numbers: dict[str, Any] = {name: kernel(summed) for name, kernel in _BY_FIELD}
    result = MetricSet(
        **numbers,
        standard_deviation=(
            sums.device.total / count,
            _root(sums.device.spread / count),
            sums.golden.total / count,
            _root(sums.golden.spread / count),
        ),
        elements=count,
        device_nonfinite=sums.device.nonfinite,
        golden_nonfinite=sums.golden.nonfinite,
        notes=metric_notes,
    )
    if not sums.finite:
        text = notes.nonfinite(count, sums.device, sums.golden, sums.unlike)
        metric_notes.update({metric: text for metric in Metric if not _is_finite(result, metric)})
    return _of_booleans(result, sums) if both_bool else result


def _cosine(sums: Sums, metric_notes: dict[Metric, str]) -> float:
    if sums.elements == 1:
        metric_notes[Metric.COSINE_SIMILARITY] = notes.SCALAR
        return 1.0
    x, y = sums.device.norm, sums.golden.norm
    if x <= EPSILON and y < EPSILON:
        metric_notes[Metric.COSINE_SIMILARITY] = notes.BOTH_ZERO
        return 1.0
    # The reference comparator takes the root twice here, so only norms below 4.9e-32 are zero.
    if math.sqrt(x) <= EPSILON:
        metric_notes[Metric.COSINE_SIMILARITY] = notes.DEVICE_ZERO
        return math.nan
    if math.sqrt(y) <= EPSILON:
        metric_notes[Metric.COSINE_SIMILARITY] = notes.GOLDEN_ZERO
        return math.nan
    if sums.square_error == 0.0:
        return 1.0
    cosine = sums.product / x / y
    return cosine if math.isnan(cosine) else max(-1.0, min(cosine, 1.0))


def _relative_euclidean(sums: Sums, metric_notes: dict[Metric, str]) -> float:
    if sums.golden.norm <= EPSILON:
        zero = sums.device.norm <= EPSILON
        metric_notes[Metric.RELATIVE_EUCLIDEAN_DISTANCE] = (
            notes.BOTH_ZERO if zero else notes.GOLDEN_ZERO
        )
        return 0.0
    return _root(sums.square_error / sums.golden.square)


def _root(value: float) -> float:
    """Square root that passes NaN on; rounding may leave a zero just below zero."""
    return math.sqrt(max(value, 0.0)) if not math.isnan(value) else value


def _is_finite(metrics: MetricSet, metric: Metric) -> bool:
    value = metrics.value(metric)
    return all(map(math.isfinite, value)) if isinstance(value, tuple) else math.isfinite(value)


def _of_booleans(metrics: MetricSet, sums: Sums) -> MetricSet:
    """Only the cosine, and a distance of 0 where golden has nothing set: the reference
    comparator cannot subtract booleans either, whatever its table says."""
    undefined = _NOT_FOR_BOOLEANS
    distance = 0.0
    if sums.golden.norm > EPSILON:
        undefined, distance = (*undefined, Metric.RELATIVE_EUCLIDEAN_DISTANCE), math.nan
    return every_metric(
        math.nan,
        cosine_similarity=metrics.cosine_similarity,
        relative_euclidean_distance=distance,
        elements=metrics.elements,
        device_nonfinite=metrics.device_nonfinite,
        golden_nonfinite=metrics.golden_nonfinite,
        different=round(sums.square_error),
        notes=dict(metrics.notes) | dict.fromkeys(undefined, notes.BOOLEAN),
    )


def every_metric(value: float, **others: Any) -> MetricSet:
    """Metrics that are all *value* but for *others*, which are named as the fields are."""
    fields: dict[str, Any] = dict.fromkeys(Metric, value)
    fields |= {"standard_deviation": (value, value, value, value), **others}
    return MetricSet(**fields)
