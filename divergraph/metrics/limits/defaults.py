"""The built-in limits, chosen so that an element type's own rounding never fails.

What decides is the relative Euclidean distance, the cosine and the worst single error
(:func:`divergraph.metrics.limits.quantities.worst_error`). The limits for 10 to 11 significant bits
(float16, and float32, which matrix units round to as many) are what the Ascend documentation
recommends; coarser types get more, by their unit roundoff. That documentation's limits of the
divergence, the root mean square error and the mean relative error never fail a tensor alone, but
are named for one that failed: the first compares rounding where a tensor is nearly constant, the
second depends on the scale, the third on values near zero.
"""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.metrics.limits.quantities import WORST_ERROR
from divergraph.metrics.limits.rules import LimitRule, LimitScope
from graphstore.model import DType, Metric

_DISTANCE = Metric.RELATIVE_EUCLIDEAN_DISTANCE.value
_COSINE = Metric.COSINE_SIMILARITY.value
_EQUAL = "equal_share"

DEFAULT_FAIL: Mapping[str, float] = {_COSINE: 0.99, _DISTANCE: 0.05, WORST_ERROR: 0.5}
DEFAULT_WARN: Mapping[str, float] = {_COSINE: 0.999, _DISTANCE: 0.01, WORST_ERROR: 0.2}
SUPPORTING: Mapping[str, float] = {
    Metric.KULLBACK_LEIBLER_DIVERGENCE.value: 0.005,
    Metric.ROOT_MEAN_SQUARE_ERROR.value: 1.0,
    Metric.MEAN_RELATIVE_ERROR.value: 1.0,
}

BY_DTYPE: Mapping[DType, tuple[float, float, float, float, float, float]] = {
    # fail: distance, cosine, worst error; then the same of warn
    DType.BFLOAT16: (0.1, 0.99, 0.75, 0.04, 0.998, 0.35),
    DType.FLOAT8_E4M3FN: (0.2, 0.97, 1.0, 0.1, 0.99, 0.5),
    DType.FLOAT8_E4M3FNUZ: (0.2, 0.97, 1.0, 0.1, 0.99, 0.5),
    DType.HIFLOAT8: (0.2, 0.97, 1.0, 0.1, 0.99, 0.5),
    DType.FLOAT8_E5M2: (0.35, 0.93, 2.0, 0.18, 0.98, 1.0),
    DType.FLOAT8_E5M2FNUZ: (0.35, 0.93, 2.0, 0.18, 0.98, 1.0),
    DType.INT8: (0.1, 0.99, 0.75, 0.05, 0.998, 0.35),
    DType.UINT8: (0.1, 0.99, 0.75, 0.05, 0.998, 0.35),
    DType.INT4: (0.3, 0.95, 1.0, 0.15, 0.99, 0.5),
    DType.UINT4: (0.3, 0.95, 1.0, 0.15, 0.99, 0.5),
}

UNIT: Mapping[DType, float] = {
    DType.BFLOAT16: 2.0**-8,
    DType.FLOAT8_E4M3FN: 2.0**-4,
    DType.FLOAT8_E4M3FNUZ: 2.0**-4,
    DType.HIFLOAT8: 2.0**-3,
    DType.FLOAT8_E5M2: 2.0**-3,
    DType.FLOAT8_E5M2FNUZ: 2.0**-3,
}
"""Unit roundoff of coarse floats; :data:`USUAL_UNIT` for all others."""

USUAL_UNIT = 2.0**-11

SMALLEST_STEP: Mapping[DType, float] = {
    DType.FLOAT16: 2.0**-24,
    DType.FLOAT8_E4M3FN: 2.0**-9,
    DType.FLOAT8_E5M2: 2.0**-16,
}
"""The distance of a float type's smallest numbers; :data:`NUMERICAL_ZERO` for all others."""

NUMERICAL_ZERO = 1e-12
"""Absolute errors up to this are worth a warning at most, however small golden is."""

ONE_STEP = frozenset({DType.INT8, DType.UINT8, DType.QINT8, DType.QUINT8})
"""Types of quantised values: on a grid, so rounding either way is one step."""

INTEGERS = frozenset(
    {DType.INT16, DType.INT32, DType.INT64, DType.UINT16, DType.UINT32, DType.UINT64}
)
WIDE_INTEGERS = frozenset({DType.INT64, DType.UINT64})
"""Indices, shapes and counters: a wrong one is wrong however near it is."""

_INDEX_OPS = (
    *("ArgMax*", "ArgMin*", "TopK*", "Where", "NonZero", "Unique*", "Shape*", "Size", "Rank"),
    *("Range*", "OneHot*", "NonMaxSuppression*"),
)


def _of_dtype(dtype: DType, bounds: tuple[float, ...]) -> LimitRule:
    names = (_DISTANCE, _COSINE, WORST_ERROR)
    return LimitRule(
        f"default.{dtype.value}",
        dict(zip(names, bounds[:3], strict=True)),
        dict(zip(names, bounds[3:], strict=True)),
        LimitScope.DTYPE,
        dtype.value,
        built_in=True,
    )


DEFAULT = LimitRule("default", DEFAULT_FAIL, DEFAULT_WARN, built_in=True, supporting=SUPPORTING)

BUILT_IN: tuple[LimitRule, ...] = (DEFAULT, *(_of_dtype(*entry) for entry in BY_DTYPE.items()))

_WHOLE: Mapping[str, float | None] = {_DISTANCE: None, _COSINE: None, WORST_ERROR: None}
INDICES = LimitRule(
    "default.indices",
    {**_WHOLE, _EQUAL: 0.99},
    {**_WHOLE, _EQUAL: 1.0},
    built_in=True,
    supporting=dict.fromkeys(SUPPORTING),
)
"""Replaces the other built-in rules where elements are indices and it is known how many are equal:
by how much an index is off says nothing."""


def are_indices(device: DType | None, golden: DType | None, op_type: str) -> bool:
    """True if integers of these types, made by an op of this type, stand for places."""
    if device not in INTEGERS and golden not in INTEGERS:
        return False
    if device in WIDE_INTEGERS or golden in WIDE_INTEGERS:
        return True
    return any(LimitRule("", pattern=pattern).matches(op_type) for pattern in _INDEX_OPS)


def coarser(device: DType | None, golden: DType | None) -> DType | None:
    """The coarser of the two types; the device's if they round alike."""
    if golden is None or device is None:
        return device or golden
    return golden if _roughness(golden) > _roughness(device) else device


def _roughness(dtype: DType) -> float:
    return BY_DTYPE[dtype][0] if dtype in BY_DTYPE else 0.0
