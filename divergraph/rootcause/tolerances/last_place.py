"""Suspicion is bounded by the error in units of the tensor's own last place.

Floors follow an op's own values: in the tail of a Sigmoid, or where the right result is exactly
0, they are next to nothing. Over such a floor an error of 1e-8 in a tensor of ones is thousands
of times too large, yet invisible: whatever reads the tensor adds it to values whose last place is
larger. So, for all floors alike, an error of one unit of the last place reaches at most the limit
of guilt, one of *k* units *k* times the limit, and none :data:`calibration.MOST_SUSPICION`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.tolerances.contract import (
    Action,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
    Widen,
)
from divergraph.rootcause.values import norms

_BLOCK = 1 << 16


def most_suspicion(
    device: Array,
    reference: Array,
    handed: Iterable[Array],
    inputs_error: float | None,
    precision: Precision,
    guilty: float,
) -> float:
    """The largest suspicion the error of *device* (of the reference's shape) can have.

    It is *guilty*, the limit, where the largest error is below the last place of the reference's
    scale, or far below both *inputs_error* (relative) and every limit. If the reference is all
    zero, the scale is that of the arrays the op was *handed*. Infinite if the device is not finite
    where the reference is.
    """
    error = _largest_error(device, reference)
    if not math.isfinite(error):
        return math.inf
    scale = scale_of(reference) or max(map(scale_of, handed), default=0.0)
    if scale == 0.0:
        return max(guilty, calibration.MOST_SUSPICION)
    share = error / scale
    if share < calibration.FAR_BELOW * min(inputs_error or 0.0, calibration.LEAST_LIMIT):
        return guilty
    units = share / (max(1.0, precision.least_units) * precision.unit)
    return min(guilty * max(units, 1.0), max(guilty, calibration.MOST_SUSPICION))


def scale_of(value: Array) -> float:
    """The root mean square (float64) of the finite elements of *value* that do not stand for
    infinity; 0 if there are none or they are not numbers."""
    if value.dtype.kind not in "biufc":
        return 0.0
    flat = value.reshape(-1)
    small, every = _Mean(), _Mean()
    for start in range(0, flat.size, _BLOCK):
        sizes = np.abs(flat[start : start + _BLOCK]).astype(np.float64)
        sizes = sizes[np.isfinite(sizes)]
        every.add(sizes)
        small.add(sizes[sizes < calibration.MASK_LEAST])
    return small.root or every.root


class _Mean:
    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, sizes: Array) -> None:
        with np.errstate(over="ignore"):
            self._sum += float(np.sum(np.square(sizes)))
        self._count += sizes.size

    @property
    def root(self) -> float:
        root = math.sqrt(self._sum / self._count) if self._count else 0.0
        return root if math.isfinite(root) else 0.0


def _largest_error(device: Array, reference: Array) -> float:
    """The largest error where the reference is finite; infinite if one is no number."""
    actual, right = device.reshape(-1), reference.reshape(-1)
    largest = 0.0
    kind = np.complex128 if "c" in (actual.dtype.kind, right.dtype.kind) else np.float64
    for start in range(0, right.size, _BLOCK):
        here = np.asarray(actual[start : start + _BLOCK], kind)
        there = np.asarray(right[start : start + _BLOCK], kind)
        finite = np.isfinite(there)
        with np.errstate(all="ignore"):
            errors = np.abs(here[finite] - there[finite])
        if not np.isfinite(errors).all():
            return math.inf
        largest = max(largest, float(errors.max(initial=0.0)))
    return largest


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    feeds, precision = context.given.values(), context.arithmetic.precision
    bound = most_suspicion(
        estimate.device,
        estimate.reference,
        feeds,
        context.inputs_error,
        precision,
        context.options.guilty,
    )
    if not math.isfinite(bound):
        return None
    distance, scale = norms(estimate.device, estimate.reference)
    # The floor that gives this suspicion, to be shown; a reference of zeros has only the bound.
    floor = distance / scale / bound if scale > 0.0 else 0.0
    return Widen(floor, bound=bound, numbers={"most_suspicion": bound})


TOLERANCE = Tolerance(
    "last place",
    Stage.LAST,
    10,
    "an error counts only by its size in units of the last place of the whole tensor",
    _apply,
    handed_on=True,
)
