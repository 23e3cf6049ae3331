"""What statistics hide, and how far rounding alone moves what they show.

Values in another order have the same statistics. The next call that mixes places makes other
values of them, and looks guilty where the one before is. So such a call is blamed only where its
own output shows that it was fed golden's values: one extreme is golden's still, or all statistics
are golden's times a number, or another reader of the same tensor is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.metrics.limits.quantities import golden_root
from divergraph.thresholds.recorded.call_laws import Summary, plain_name, summary_of
from divergraph.thresholds.recorded.laws_of_layers import IN_ANY_ORDER
from graphstore.model import Comparison, DType, DumpTensorRef, MetricSet, Op
from importers.dumps.index import TensorKey

_SAME = 2.0**-8
"""Two extremes nearer than this, relative to the larger of all four, are one value, rounded."""
_ALIKE = 0.25
"""The other extreme must not be off by more: two extremes may be equal by chance."""
_TIMES = 0.02
"""Ratios of statistics nearer than this are one factor."""
_LEAST_NORMAL, _LEAST = 2.0**-14, 2.0**-24
"""The least normal number of float16, and the least of all, which is the step below the other: of
tensors that are smaller little is left."""
_SUMS = frozenset({"add", "radd", "sub", "rsub", "subtract", "lerp", "addcmul", "sum", "mean"})


@dataclass(frozen=True, slots=True)
class DumpedStatistics:
    """The tensors that two dumps have, the device's and golden's, by op, and the ``laws`` that
    device calls break by their own statistics, as sentences."""

    laws: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[TensorKey, DumpTensorRef] = field(default_factory=dict)
    golden: Mapping[TensorKey, DumpTensorRef] = field(default_factory=dict)

    def sides(self, item: Comparison, twin: str) -> tuple[Summary, Summary] | None:
        """The statistics of a compared output and of golden's, of the call *twin*; None where a
        side has values, or a statistic that is not finite."""
        device = summary_of(self.device.get((item.op, item.io, item.port)))
        port = item.port if item.golden is None else item.golden.port
        golden = summary_of(self.golden.get((twin, item.io, port)))
        return None if device is None or golden is None else (device, golden)


def gain(op: Op, item: Comparison, read: Sequence[Comparison]) -> float:
    """By how much rounding of what *op* has *read* is more, relative to its output *item*: what is
    added up may cancel. 1 where nothing is, or nothing tells."""
    metrics, is_back = item.metrics, op.type.endswith((".backward", ".parameters_grad"))
    shape = op.outputs[item.port].shape if 0 <= item.port < len(op.outputs) else None
    is_bias = is_back and shape is not None and len(shape) < 2  # a sum along all other axes
    known = [each.metrics for each in read if each.metrics is not None]
    if metrics is None or not known or not (is_bias or plain_name(op.type) in _SUMS):
        return 1.0
    output = golden_root(metrics)
    sizes = [
        _size(each)
        * (1.0 if op.type == "mean" else max(each.elements / max(metrics.elements, 1), 1.0))
        for each in known
    ]
    largest = max((size for size in sizes if not math.isnan(size)), default=0.0)
    return max(1.0, largest / output) if output > 0.0 else math.inf


def _size(metrics: MetricSet) -> float:
    """Golden's root mean square; at least its mean, where rounding hides the deviation from it."""
    root = golden_root(metrics)
    return abs(metrics.standard_deviation[2]) if math.isnan(root) else root


def lost_share(item: Comparison, root: float) -> float | None:
    """The share of a tensor, with golden values of root mean square *root*, that float16 may lose;
    None of other types, and of values that it holds."""
    if item.device_dtype is not DType.FLOAT16 or not root < _LEAST_NORMAL:
        return None
    return min(_LEAST / root, 1.0) if root > 0.0 else 1.0


def minds_order(op: Op) -> bool:
    """Whether *op* may make other statistics of the same values in another order."""
    return op.attrs.get("direction") != "forward" or plain_name(op.type) not in IN_ANY_ORDER


def keeps_places(sides: Sequence[tuple[Summary, Summary]]) -> bool:
    """Whether outputs, pairs of the device's and golden's, differ as values in another order would
    not make them: in places, or by a factor."""
    return any(_has_same_end(*pair) or _is_multiple(*pair) for pair in sides if pair[0].count > 1)


def _has_same_end(device: Summary, golden: Summary) -> bool:
    most = max(device.largest, golden.largest)
    ends = (device.maximum, golden.maximum), (device.minimum, golden.minimum)
    is_alike = all(abs(one - other) <= _ALIKE * most for one, other in ends)
    return is_alike and any(
        abs(one) > _SAME * most and abs(one - other) <= _SAME * most for one, other in ends
    )


def _is_multiple(device: Summary, golden: Summary) -> bool:
    times = device.norm / golden.norm if golden.norm else 0.0
    ends = (golden.maximum, golden.minimum), (golden.minimum, golden.maximum)
    for (high, low), is_positive in zip(ends, (True, False), strict=True):
        if not high or not low or not times:
            continue
        ratios = device.maximum / high, device.minimum / low
        if all(abs(abs(ratio) / times - 1) <= _TIMES for ratio in ratios):
            return (ratios[0] > 0) is is_positive
    return False
