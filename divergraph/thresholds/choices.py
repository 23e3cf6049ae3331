"""Differences that are no fault: an op that chooses chose otherwise between near equals.

The gradient of max pooling goes to one of the values that were largest, that of ReLU through
those above zero; sorting, rounding and comparing choose, too. Where two values are equal but
for rounding, the device may choose the other: few elements are then quite different, and no
op made a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphstore.model import Comparison, DType, Figures, SideFigures

_RANKS = re.compile(r".*(TopK|Sort|NonMaxSuppression|MaxPoolWithArgmax|ArgMaxWithValue)")
_MOVES = re.compile(r"MaxPool.*Grad|.*MaxPool.*Backward|ReduceMax.*Grad")
_GATES = re.compile(r".*(Relu|ReLU|Threshold|Hardtanh|Clip|Abs|Maximum|Minimum).*(Grad|Backward)")
_DECIDES = re.compile(
    r"(ArgMax|ArgMin|Greater|Less|Equal|NotEqual|Sign|Round|Rint|Floor|Ceil|NonMaxSuppression|"
    r"Quantize|AscendQuant|OneHot|InTopK)"
)
_SATURATES = re.compile(r".*(Tanh|Sigmoid|Erf|Softsign)(?!.*(Grad|Backward))")
_TWO_ENDS = 0.9
"""Share of the largest variance values between two ends can have, from which on nearly all
are at one of the ends: (high - mean) (mean - low), by Bhatia and Davis."""
_FEW = 0.005
_AT_LEAST = 2
_NOT_TINY = 64
_HALF = 0.5
_INDICES = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT16, DType.UINT64})


def chose_otherwise(op_type: str, item: Comparison, outputs: Sequence[Comparison] = ()) -> str:
    """Why the difference of an output can be a choice between near equals, in words; empty
    if it cannot: the op does not choose, more than 0.5 % of the elements differ (two of
    64 may), or they differ in another way than a choice makes them. Indices may all differ if the
    values they stand for, among the *outputs* of the same op, are right."""
    figures, metrics = item.figures, item.metrics
    if figures is None or metrics is None or metrics.device_nonfinite or not figures.bad:
        return ""
    if _RANKS.match(op_type) and item.device_dtype in _INDICES and _values_hold(outputs):
        return "it gives other indices of values that are the same, as when values tie"
    allowed = _AT_LEAST if metrics.elements >= _NOT_TINY else 0
    if figures.bad > max(allowed, _FEW * metrics.elements):
        return ""
    amount = f"{figures.bad} of {metrics.elements} elements"
    if _MOVES.match(op_type) and _only_moved(figures, metrics.elements):
        return f"{amount} hold what golden has in other places, as when two values tie"
    if _GATES.match(op_type) and 0.0 in (figures.worst_device, figures.worst_golden):
        return f"{amount} are let through on one side only, as when a value is close to zero"
    if _DECIDES.match(op_type):
        return f"{amount} were decided otherwise, as when a value is close to the border"
    if _SATURATES.match(op_type) and _all_at_two_ends(figures.golden):
        return f"{amount} differ where all others are at either end, as when a value is near zero"
    return ""


def _all_at_two_ends(side: SideFigures) -> bool:
    most = (side.high - side.mean) * (side.mean - side.low)
    return most > 0.0 and side.std * side.std >= _TWO_ENDS * most


def _values_hold(outputs: Sequence[Comparison]) -> bool:
    values = [one for one in outputs if one.compared and one.device_dtype not in _INDICES]
    return bool(values) and not any(one.over for one in values)


def _only_moved(figures: Figures, elements: int) -> bool:
    """What left one place came to another: the sum is the same, where a lost or invented
    value would change it."""
    device, golden = figures.device, figures.golden
    one = abs(figures.worst_device - figures.worst_golden)
    return (
        abs(device.zeros - golden.zeros) <= figures.bad
        and abs(device.mean - golden.mean) * elements <= _HALF * one
    )
