"""Errors in a part of a tensor that the norm of the whole tensor hides.

A few huge values (-10000 in a mask, an outlier channel) or a coarse quantiser make a floor
under which the rest of the tensor may be anything. So errors are compared with those of the
imitations once more: among elements of similar size, and at the worst elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.floors import least_floor
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.tolerances.contract import (
    Action,
    Narrow,
    OpContext,
    Stage,
    Tolerance,
    ToleranceEstimate,
)
from divergraph.rootcause.tolerances.last_place import scale_of
from divergraph.rootcause.tolerances.slices import (
    departing_suspicion,
    flat_suspicion,
    slice_suspicion,
)
from divergraph.rootcause.values import TINY, norms, relative

_MOST = 1 << 19
"""Elements that are looked at; of larger tensors every k-th. Bounds cost, not a verdict."""
_ROW = 128
"""Elements whose maximum stands for them while the worst are looked for: saves a full partition."""
"""In place of a noise of 0, so that ratios stay finite."""
_FRACTION, _EXPONENTS, _BIAS = 52, 1 << 11, 1022
"""Of a float64: bits of its fraction, possible exponents, the one of numbers from 0.5 to 1."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What explains errors. ``imitations`` have the reference's shape; ``alike`` says that all
    elements have noise of one size, as quantised ones do; ``least`` is a further noise of every
    element, relative to the root mean square; ``step`` is the step of a quantised output, and
    ``held`` the noise of every element of one held in integers. ``flat`` is the share of the values
    that kernels lose which are not emulated. ``repeated``: an imitation may have the very errors of
    the device; not where operands are read in a format, as ties of scales fall by row or tile."""

    imitations: tuple[Array, ...]
    precision: Precision
    alike: bool = False
    least: float = 0.0
    step: float | None = None
    held: float = 0.0
    flat: float = 0.0
    repeated: bool = False


def local_suspicion(reference: Array, device: Array, noise: Noise) -> float:
    """Error over noise of the worst part of the tensor, less the allowance for chance, to be held
    against the limits of suspicion; 0 for tensors too small to have parts, and for other dtypes
    than floats."""
    kinds = {side.dtype.kind for side in (reference, device, *noise.imitations)}
    if not noise.imitations or kinds != {"f"}:
        return 0.0
    suspicion = _of_all_parts(reference, device, noise)
    if noise.alike or noise.repeated:
        suspicion = max(suspicion, _of_departing(reference, device, noise))
    if noise.alike and noise.flat:
        scale = scale_of(reference)
        suspicion = max(suspicion, flat_suspicion(reference, device, noise.flat, scale))
    return suspicion


def _of_departing(reference: Array, device: Array, noise: Noise) -> float:
    """The suspicion of the slice that departs furthest from the imitation that explains most, of
    those that repeat the device's errors in all others; 0 where none does."""
    unit, step = least_floor(noise.precision, reference.size), noise.step or 0.0
    smallest = max(noise.least * scale_of(reference), step / math.sqrt(12.0))
    departures = (
        departing_suspicion(reference, device, imitation, unit, smallest, step)
        for imitation in noise.imitations
    )
    return min((departure for departure in departures if departure is not None), default=0.0)


def _of_all_parts(reference: Array, device: Array, noise: Noise) -> float:
    """As :func:`local_suspicion`, of parts by size, the worst elements, and slices."""
    step = -(-reference.size // _MOST) or 1
    right, actual, *imitated = (
        np.asarray(array.reshape(-1)[::step], np.float64)
        for array in (reference, device, *noise.imitations)
    )
    with np.errstate(all="ignore"):
        off = reduce(np.maximum, (np.abs(imitation - right) for imitation in imitated))
        error = np.abs(actual - right)
        if noise.alike:  # a value that saturates does so on the device and in the imitation
            error = reduce(
                np.minimum, (np.abs(actual - imitation) for imitation in imitated), error
            )
    there = np.isfinite(right) & np.isfinite(off)
    if not there.all():
        right, off, error = right[there], off[there], error[there]
    enough = right.size >= calibration.PART_LEAST_VALUES
    if not (enough and np.isfinite(error).all() and error.any()):
        return 0.0
    right = np.abs(right)
    unit = least_floor(noise.precision, right.size)
    normal = noise.precision.smallest_normal
    smallest = noise.least * scale_of(right)
    off = np.maximum(off, smallest)
    off = np.maximum(off, np.where(right < normal, normal, 0.0))
    if noise.alike:
        usual = _usual(off) if noise.step is None else noise.step
        peak = _peak(error / max(usual, unit * float(right.max())))
        if not noise.held:
            return peak
        return max(peak, slice_suspicion(reference, device, noise.imitations, unit, noise.held))
    parts = _by_size(right)
    return max(
        _of_parts(parts, right, off, error, unit),
        _of_peaks(parts, right, off, error, unit),
        slice_suspicion(reference, device, noise.imitations, unit, smallest),
    )


def _of_parts(parts: Array, right: Array, off: Array, error: Array, unit: float) -> float:
    """The largest ratio of error to noise of a part, both as Euclidean norms over the part."""
    energies = [np.bincount(parts, np.square(array)) for array in (error, off, right)]
    wrong, usual, size = (np.sqrt(energy) for energy in energies)
    explained = np.maximum(np.maximum(usual, unit * size), TINY)
    return float(np.max(wrong / explained)) / calibration.PART_UNSURE


def _of_peaks(parts: Array, right: Array, off: Array, error: Array, unit: float) -> float:
    """The ratio of error to the part's largest noise that a few elements reach or exceed."""
    count = int(parts.max()) + 1
    noises, largest = np.full(count, TINY), np.zeros(count)
    np.maximum.at(noises, parts, off)
    np.maximum.at(largest, parts, right)
    ratios = error / np.maximum(noises, unit * largest)[parts]
    return _peak(ratios)


def _peak(ratios: Array) -> float:
    """The ratio that a few elements reach or exceed, less the allowance for chance."""
    rows = ratios[: ratios.size - ratios.size % _ROW].reshape(-1, _ROW)
    if len(rows) >= calibration.PEAK_VALUES:  # most elements are ruled out by their row's maximum
        ratios = ratios[ratios >= _among_worst(rows.max(axis=1))]
    return _among_worst(ratios) / calibration.PEAK_UNSURE


def _among_worst(ratios: Array) -> float:
    return float(np.partition(ratios, -calibration.PEAK_VALUES)[-calibration.PEAK_VALUES])


def _usual(off: Array) -> float:
    """The usual noise of elements that have any: few values are rounded to another step at all."""
    there = off[off > 0.0]
    if not there.size:
        return 0.0
    usual = math.sqrt(float(np.mean(np.square(off))))
    return max(usual, float(np.quantile(there, calibration.USUAL_STEPS)))


def _by_size(right: Array) -> Array:
    """The part number of each element (intp, of the same shape). A part holds elements within a
    factor of 2^PART_BITS, and at least PART_VALUES of them. Zeros belong to the smallest part: what
    a gate has just closed may be off by as much as what it just let through."""
    exponents = right.view(np.int64) >> _FRACTION  # of what is positive: no sign
    counts = np.bincount(exponents, minlength=_EXPONENTS)
    counts[0] = 0
    classes = (np.arange(_EXPONENTS) - _BIAS) // calibration.PART_BITS
    numbers = np.zeros(_EXPONENTS, np.intp)
    number = class_size = last = 0
    for exponent in np.flatnonzero(counts).tolist():
        if class_size >= calibration.PART_VALUES and classes[exponent] != last:
            number, class_size = number + 1, 0
        numbers[exponent], last = number, classes[exponent]
        class_size += int(counts[exponent])
    if (
        class_size < calibration.PART_VALUES and number
    ):  # too few for a part: joined to the one before
        numbers[numbers == number] = number - 1
    parts: Array = numbers[exponents]
    return parts


def noise_of(context: OpContext, estimate: ToleranceEstimate) -> Noise:
    """The noise of an output, from the imitations made so far."""
    step = None if estimate.unseen else context.arithmetic.step(context.group)
    precision = context.arithmetic.precision
    smallest = max(estimate.unseen, last_place_noise(precision))
    held_floor = held_noise(context)
    return Noise(
        estimate.imitations,
        precision,
        alike=context.quantises,
        least=smallest,
        step=step,
        held=held_floor,
        flat=estimate.unseen,
        repeated=not context.arithmetic.operands,
    )


def held_noise(context: OpContext) -> float:
    """The usual error of rounding to the grid of an output that the device holds in integers; 0
    for others."""
    quantiser = context.arithmetic.quantisers.held.get(context.group.output)
    return 0.0 if quantiser is None else float(np.max(quantiser.scale)) / math.sqrt(12.0)


def last_place_noise(precision: Precision) -> float:
    """The noise of every element relative to the tensor's scale. Where nothing is rounded to the
    digits of a value, its noise is as large as the last place of what was added up on the way,
    in ops that were fused with this one as well; 0 where each value is rounded by itself."""
    return 0.0 if precision.rounds else precision.value_units * precision.unit


def _apply(context: OpContext, estimate: ToleranceEstimate) -> Action:
    introduced = relative(estimate.device, estimate.reference)
    suspicion = local_suspicion(estimate.reference, estimate.device, noise_of(context, estimate))
    # An error that makes the whole tensor guilty needs no part to show it.
    if (
        introduced > context.options.guilty * estimate.floor
        or suspicion <= introduced / estimate.floor
    ):
        return None
    # The floor at which the whole tensor is as suspicious as its worst part.
    floor = introduced / suspicion
    return Narrow(floor, floor * norms(estimate.reference, estimate.reference)[1])


TOLERANCE = Tolerance(
    "local error",
    Stage.SUSPICIOUS,
    50,
    "a few large values raise the floor of the whole tensor, which hides errors in the rest",
    _apply,
)
