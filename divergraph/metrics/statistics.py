"""Comparing two tensors of which a dump has statistics instead of values.

Maximum, minimum, mean and norm of both sides give lower bounds of the errors, whatever the values
are: for x of the device and y of the golden side, n elements each,

* ``max|x-y|`` is at least the difference of the maxima, of the minima and of the means,
  and the root mean square error;
* ``mean|x-y|`` is at least the difference of the means;
* ``mean (x-y)^2`` is at least the squared difference of the means plus the squared
  difference of the standard deviations, as ``|x-y|`` is at least ``||x|-|y||``;
* the relative Euclidean distance is that root times ``sqrt(n)`` over the golden norm.

A bound over a limit is a certain failure; one within it proves nothing, and the notes say so.
Checksums of the same kind over the same type do: equal ones mean equal tensors, others a difference
though every statistic may agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from divergraph.metrics.limits import notes
from divergraph.metrics.metrics import every_metric
from divergraph.metrics.sums import EPSILON
from divergraph.text.words import NOT_KNOWN
from divergraph.values.array_types import Array
from graphstore.model import Level, Metric, MetricSet, TensorStatistics

BY_STATISTICS = "by statistics only"
BY_CHECKSUM = "equal checksums: equal values"
CHECKSUMS_DIFFER = "checksums differ"
_BLOCK = 1 << 16
_BOUND = "at least this: from statistics only"
_BOUNDS = (
    Metric.MAX_ABSOLUTE_ERROR,
    Metric.RELATIVE_EUCLIDEAN_DISTANCE,
    Metric.MEAN_ABSOLUTE_ERROR,
    Metric.ROOT_MEAN_SQUARE_ERROR,
)


class NoStatisticsError(ValueError):
    """The two sides have no statistic in common, or of different numbers of elements."""


def statistics_of(values: Array) -> TensorStatistics:
    """The statistics of an array's finite values, as the dump tools write them.

    Raises:
        NoStatisticsError: complex or non-numeric elements.
    """
    if values.dtype.kind not in "biuf":
        raise NoStatisticsError(f"elements of type {values.dtype} have no statistics")
    flat = values.reshape(-1)
    total = square = 0.0
    low, high, nans, infinities, finite = math.inf, -math.inf, 0, 0, 0
    for start in range(0, len(flat), _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        good = block[np.isfinite(block)]
        nans += int(np.isnan(block).sum())
        infinities += int(np.isinf(block).sum())
        if good.size:
            finite += good.size
            total += float(good.sum())
            square += float(np.square(good).sum())
            low, high = min(low, float(good.min())), max(high, float(good.max()))
    has_finite = finite > 0
    return TensorStatistics(
        count=flat.size,
        maximum=high if has_finite else None,
        minimum=low if has_finite else None,
        mean=total / finite if has_finite else None,
        norm=math.sqrt(square) if has_finite else None,
        nans=nans,
        infinities=infinities,
    )


def equal_checksums(device: TensorStatistics, golden: TensorStatistics) -> bool | None:
    """Whether two tensors of one type and shape are the same by their checksums; None if no two
    checksums of a kind say so."""
    kinds = [side.checksum.partition(":")[0] for side in (device, golden)]
    if not kinds[0] or kinds[0] != kinds[1]:
        return None
    if device.checksum != golden.checksum:
        return False
    # An exclusive or does not see order: other statistics must agree, too.
    return replace(device, count=None) == replace(golden, count=None) or kinds[0] != "xor"


def no_error(elements: int) -> MetricSet:
    """The metrics of two equal tensors of which no value is known."""
    return every_metric(
        0.0,
        cosine_similarity=1.0,
        standard_deviation=(math.nan,) * 4,
        elements=elements,
        notes={Metric.STANDARD_DEVIATION: NOT_KNOWN},
    )


def compare_statistics(
    device: TensorStatistics, golden: TensorStatistics, *, padded: bool = False
) -> MetricSet:
    """Lower bounds of the errors, with a note beside each; what has none is NaN.

    *padded* says that the device's count may include zeros its layout added.

    Raises:
        NoStatisticsError: nothing can be said.
    """
    if device.count is not None and golden.count is not None and device.count != golden.count:
        if not padded or device.count < golden.count:
            raise NoStatisticsError(
                f"device has {device.count} elements and golden {golden.count}: "
                "their statistics cannot be compared"
            )
        golden = _with_zeros(golden, device.count)
    x, y = _Side.of(device), _Side.of(golden)
    if x.nonfinite and _same_nonfinite(device, golden):
        x, y = replace(x, nonfinite=0), replace(y, nonfinite=0)
    count = golden.count if golden.count is not None else device.count
    bounds = _bounds(x, y, count)
    if bounds is None and not (x.nonfinite or y.nonfinite):
        if _Side.of(golden).nonfinite:
            raise NoStatisticsError("both sides hold the same infinities or NaN, which say nothing")
        raise NoStatisticsError("the two sides have no statistic in common")
    return _metrics(x, y, bounds or _Bounds(math.nan, math.nan, math.nan, math.nan), count or 0)


def told_by_statistics(
    device: TensorStatistics,
    golden: TensorStatistics,
    *,
    alike: bool = True,
    padded: bool = False,
) -> tuple[MetricSet | None, str]:
    """The metrics that two statistics allow, and what they rest on; None and why there are none.

    *alike* says that type and shape are the same, so that checksums count.
    """
    same = equal_checksums(device, golden) if alike else None
    detail = f"{BY_STATISTICS}: errors are lower bounds"
    if same is False:
        detail = f"{detail}; {CHECKSUMS_DIFFER}"
    try:
        metrics = compare_statistics(device, golden, padded=padded)
    except NoStatisticsError as error:
        if not same:
            return None, CHECKSUMS_DIFFER if same is False else str(error)
        metrics = no_error(golden.count or 0)
    if same:  # whatever the statistics say: -inf of a mask makes a mean that is no number
        return no_error(metrics.elements), BY_CHECKSUM
    return metrics, detail


def at_least_a_warning(level: Level, detail: str) -> Level:
    """*level*, but of different checksums on equal statistics no pass."""
    return Level.WARN if detail.endswith(CHECKSUMS_DIFFER) and level is Level.PASS else level


def _with_zeros(side: TensorStatistics, count: int) -> TensorStatistics:
    """The statistics of the same values among zeros, *count* elements in all."""
    own = side.count or 0
    return replace(
        side,
        count=count,
        maximum=None if side.maximum is None else max(side.maximum, 0.0),
        minimum=None if side.minimum is None else min(side.minimum, 0.0),
        mean=None if side.mean is None else side.mean * own / count,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's finite statistics, NaN where unknown."""

    maximum: float
    minimum: float
    mean: float
    norm: float
    deviation: float
    largest: float
    nonfinite: int

    @classmethod
    def of(cls, side: TensorStatistics) -> _Side:
        maximum, minimum = _finite(side.maximum), _finite(side.minimum)
        mean, norm = _finite(side.mean), _finite(side.norm)
        nonfinite = (side.nans or 0) + (side.infinities or 0)
        # Counts may not be recorded; then a NaN among the statistics themselves tells. A sum may
        # overflow by itself: between finite extremes an infinite norm or mean is not known.
        summed = [value for value in (side.mean, side.norm) if value is not None]
        if not math.isnan(maximum + minimum):
            summed = [value for value in summed if not math.isinf(value)]
        hidden = [side.maximum, side.minimum, *summed]
        seen = any(value is not None and not math.isfinite(value) for value in hidden)
        return cls(
            maximum,
            minimum,
            mean,
            norm,
            _deviation(mean, norm, side.count),
            # NaN unless both are known: one end alone bounds nothing.
            math.nan if math.isnan(maximum + minimum) else max(abs(maximum), abs(minimum)),
            nonfinite or int(seen),
        )


def _same_nonfinite(device: TensorStatistics, golden: TensorStatistics) -> bool:
    """Whether what is no number is the same on both sides, as after the -inf of a mask: how the
    numbers beside it differ is then not known from these statistics, so they show no difference."""
    if (device.infinities is None) is not (golden.infinities is None):
        # Of values the finite ones are summed up and the others counted; a dump of statistics has
        # the infinities among its extremes.
        counted, plain = (golden, device) if device.infinities is None else (device, golden)
        ends = [end for end in (plain.maximum, plain.minimum) if end is not None]
        return bool(counted.infinities) is any(map(math.isinf, ends)) and (
            bool(counted.nans) is any(map(math.isnan, ends))
        )
    figures_of_sides = [
        (side.maximum, side.minimum, side.mean, side.norm, side.nans, side.infinities)
        for side in (device, golden)
    ]
    return all(
        one == other or (_is_nan(one) and _is_nan(other))
        for one, other in zip(*figures_of_sides, strict=True)
        if not (_is_number(one) and _is_number(other))
    )


def _is_nan(value: float | None) -> bool:
    return value is not None and math.isnan(value)


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _deviation(mean: float, norm: float, count: int | None) -> float:
    """The standard deviation, NaN where rounding of mean and norm would drown it: some
    writers keep only the 8 bits of bfloat16."""
    if not count or math.isnan(mean) or math.isnan(norm):
        return math.nan
    variance = norm * norm / count - mean * mean
    return math.sqrt(variance) if variance >= mean * mean else math.nan


@dataclass(frozen=True, slots=True)
class _Bounds:
    largest: float
    mean: float
    root: float
    relative: float


def _bounds(x: _Side, y: _Side, count: int | None) -> _Bounds | None:
    means = abs(x.mean - y.mean)
    spread = _zero_for_nan(abs(x.deviation - y.deviation))
    peak = _largest(abs(x.maximum - y.maximum), abs(x.minimum - y.minimum), means)
    if math.isnan(peak) and math.isnan(_largest(abs(x.norm - y.norm))):
        return None
    roots = [math.hypot(_zero_for_nan(means), spread)]
    if count:
        # Some element differs by the peak, so the squares sum to at least its square.
        roots += [
            _zero_for_nan(peak) / math.sqrt(count),
            _zero_for_nan(abs(x.norm - y.norm)) / math.sqrt(count),
        ]
    root = max(roots)
    # No error is above the largest, so neither is their root mean square.
    return _Bounds(_largest(peak, root), means, root, _relative(root, y, count))


def _relative(root: float, y: _Side, count: int | None) -> float:
    """The distance over the golden norm, or over the most that norm can be."""
    if not count:
        return math.nan
    norm = y.norm if not math.isnan(y.norm) else y.largest * math.sqrt(count)
    if norm <= EPSILON:
        return 0.0
    return root * math.sqrt(count) / norm


def _metrics(x: _Side, y: _Side, bounds: _Bounds, count: int) -> MetricSet:
    metric_notes = dict.fromkeys(Metric, NOT_KNOWN) | dict.fromkeys(_BOUNDS, _BOUND)
    if not math.isnan(bounds.relative) and _largest(y.norm, y.largest) <= EPSILON:
        zero = bounds.largest <= EPSILON
        metric_notes[Metric.RELATIVE_EUCLIDEAN_DISTANCE] = (
            notes.BOTH_ZERO if zero else notes.GOLDEN_ZERO
        )
    if not math.isnan(x.mean + y.mean):
        metric_notes.pop(Metric.STANDARD_DEVIATION)
    return every_metric(
        math.nan,
        max_absolute_error=bounds.largest,
        relative_euclidean_distance=bounds.relative,
        standard_deviation=(x.mean, x.deviation, y.mean, y.deviation),
        mean_absolute_error=bounds.mean,
        root_mean_square_error=bounds.root,
        elements=count,
        device_nonfinite=x.nonfinite,
        golden_nonfinite=y.nonfinite,
        notes=metric_notes,
    )


def _finite(value: float | None) -> float:
    return math.nan if value is None or not math.isfinite(value) else float(value)


def _zero_for_nan(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _largest(*values: float) -> float:
    finite = [value for value in values if not math.isnan(value)]
    return max(finite, default=math.nan)
