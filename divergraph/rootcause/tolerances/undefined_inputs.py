"""Places that hang on a NaN, or on a value that stuck to the end of the type's range.

What a maximum, a comparison or a sort makes of NaN is not defined, and devices differ: the maximum
of nothing but NaN is NaN on one and -3.4e38 on another. And an op that was handed 65504 where some
op before it overflowed can only overflow again. Neither is a fault of the op that was handed it.

No list says which ops that concerns: the group is run with two other values in these places, and
what then differs hangs on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.tolerances.contract import (
    Action,
    Exclude,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    outputs_on,
)
from divergraph.rootcause.tolerances.masks import Mask
from divergraph.rootcause.values import is_numeric

_HUGE = 1e30
"""Put in place of NaN with either sign: beyond all it may be compared with."""
_AT_THE_END = 0.999
"""The share of the type's largest value from which on a device's value stuck to it."""


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    if not context.group.ops or not is_numeric(estimate.device):
        return None
    nan = {name: np.isnan(value) for name, value in context.given.items() if _has_nan(value)}
    stuck = _stuck(context, estimate)
    hanging = np.zeros(estimate.reference.shape, np.bool_)
    if nan:
        hanging |= _hanging(context, estimate, nan, (_HUGE, -_HUGE)) & _finite(estimate.reference)
    if stuck:
        hanging |= _hanging(context, estimate, stuck, (0.0,)) & _over(context, estimate)
    if not hanging.any():
        return None
    masked = estimate.masked
    missed, largest = np.zeros_like(hanging), 0.0
    if masked is not None:
        hanging, missed, largest = hanging | masked.held, masked.missed & ~hanging, masked.largest
    return Exclude(mask=Mask(hanging, missed, largest), numbers={"places": int(hanging.sum())})


def _has_nan(value: Array) -> bool:
    """Whether a float tensor holds NaN. Its square sum does then, and is quick to compute."""
    if value.dtype.kind != "f" or not value.size:
        return False
    flat = value.reshape(-1)
    with np.errstate(all="ignore"):
        return bool(np.isnan(np.dot(flat, flat)))


def _stuck(context: OpContext, estimate: ToleranceEstimate) -> dict[str, Array]:
    """Where inputs of the group are the largest number of the type, if its output is as well."""
    largest = context.arithmetic.precision.largest
    if largest is None or not estimate.are_floats or not _over(context, estimate).any():
        return {}
    floats = {name: value for name, value in context.given.items() if value.dtype.kind == "f"}
    places = {name: np.abs(value) == largest for name, value in floats.items()}
    return {name: mask for name, mask in places.items() if mask.any()}


def _over(context: OpContext, estimate: ToleranceEstimate) -> Array:
    """Where the reference is past the type's largest number and the device at it, or infinite."""
    largest = context.arithmetic.precision.largest or np.inf
    with np.errstate(invalid="ignore"):
        past = np.abs(estimate.reference) > largest
        at_end = np.abs(estimate.device.reshape(past.shape)) >= _AT_THE_END * largest
    return np.asarray(past & at_end & np.isfinite(estimate.reference))


def _finite(reference: Array) -> Array:
    """Where the reference is a number: what is NaN there is not measured in any case."""
    if reference.dtype.kind in "fc":
        return np.asarray(np.isfinite(reference))
    return np.ones(reference.shape, np.bool_)


def _hanging(
    context: OpContext,
    estimate: ToleranceEstimate,
    places: Mapping[str, Array],
    values: tuple[float, ...],
) -> Array:
    """The elements of the output that differ as *values* take the *places* of the inputs."""

    def changed(other: float) -> dict[str, Array]:
        feeds = dict(context.given)
        for tensor, there in places.items():
            feeds[tensor] = feeds[tensor].copy()
            ends = np.finfo(feeds[tensor].dtype)
            feeds[tensor][there] = np.clip(other, ends.min, ends.max)
        return feeds

    outputs = outputs_on(context, [changed(value) for value in values], estimate.reference.shape)
    if len(outputs) < len(values):
        return np.zeros(estimate.reference.shape, np.bool_)
    first, second = (*outputs, estimate.reference)[:2]
    return np.asarray((first != second) | ~_finite(first))


TOLERANCE = Tolerance(
    "undefined inputs",
    Stage.PLACES,
    20,
    "what an op makes of NaN, or of a value that stuck to the end of the type's range, is no fault "
    "of the op",
    _apply,
)
