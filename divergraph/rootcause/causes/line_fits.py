"""Lines through what is expected and what the device has: a gain, an offset, or both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from divergraph.rootcause.causes.evidence import FaultEvidence, Floats, Mask, SampledTensors, rms
from divergraph.rootcause.causes.limits import PART
from divergraph.rootcause.values import TINY

_SMALLEST_NORMAL = 2.0**-14
"""Below it float16 loses digits."""
_LEAST, _OF_NOISE = 1e-4, 3.0
"""The share of the worst slice's error, and the units of noise, from which on a slice is wrong."""
Places: TypeAlias = npt.NDArray[np.intp]
_MULTIPLIES = frozenset(("Mul", "Div", "RealDiv", "Scale"))
_ADDS = frozenset(("Add", "Sub", "BiasAdd", "AddV2"))


@dataclass(frozen=True)
class LineFit:
    """d = gain * r + offset, for the whole tensor (axis None) or each slice of an axis."""

    axis: int | None
    gain: Floats | None
    offset: Floats | None
    left: float
    """The share of the error's norm that is left, corrected for the number of parameters."""
    good: bool
    exact: bool
    """Whether no more than noise is left, in each slice."""
    per_slice: float

    @property
    def kind(self) -> tuple[bool, bool]:
        """Whether it has a gain, and an offset."""
        return self.gain is not None, self.offset is not None


def usable(view: SampledTensors) -> Mask:
    """The elements where a line can be seen: behind a Relu only those positive on both sides."""
    zeros = float(np.mean(view.r == 0.0))
    cut = float(view.r.min()) >= 0.0 and float(view.d.min()) >= -2.0 * view.noise
    if zeros > 0.05 and cut:
        return np.asarray((view.r > 0.0) & (view.d > 0.0) & view.finite)
    return view.finite


def line_fits(view: SampledTensors, use: Mask, axis: int | None) -> Iterator[LineFit]:
    """The fits by least squares of an offset, of a gain, then of both."""
    rest = None if axis is None else tuple(a for a in range(view.d.ndim) if a != axis)

    def total(values: Floats) -> Floats:
        return np.asarray(values.sum(axis=rest, keepdims=True))

    d, r = np.where(use, view.d, 0.0), np.where(use, view.r, 0.0)
    count = np.maximum(total(use.astype(np.float64)), 1.0)
    mean_d, mean_r = total(d) / count, total(r) / count
    square, cross = total(r * r), total(r * d)
    seen = int(np.count_nonzero(total(use.astype(np.float64)) > 0))
    per_slice = np.count_nonzero(use) / max(1, seen)
    offset = mean_d - mean_r
    yield _fit(view, use, (axis, None, offset), seen, per_slice)
    gain = np.where(square > 0.0, cross / np.maximum(square, TINY), 1.0)
    yield _fit(view, use, (axis, gain, None), seen, per_slice)
    if per_slice < 5.0:
        return
    varies = square - count * mean_r**2
    steady = varies <= 1e-9 * np.maximum(square, TINY)
    slope = np.where(steady, 1.0, (cross - count * mean_r * mean_d) / np.where(steady, 1.0, varies))
    yield _fit(view, use, (axis, slope, mean_d - slope * mean_r), 2 * seen, per_slice)


def _fit(
    view: SampledTensors,
    use: Mask,
    line: tuple[int | None, Floats | None, Floats | None],
    parameters: int,
    per_slice: float,
) -> LineFit:
    axis, gain, offset = line
    predicted = view.r if gain is None else gain * view.r
    predicted = predicted if offset is None else predicted + offset
    residuals, error = (view.d - predicted)[use], view.e[use]
    count = residuals.size
    free = max(count - parameters, 1)
    spent = float(np.sqrt(count / free))
    remaining, whole_error = rms(residuals) * spent, rms(error)
    good = view.little(residuals * spent, error)
    # Behind a Relu, the elements that were cut must at least agree with the fit.
    outside = view.d[~use] - np.maximum(predicted[~use], 0.0) if not use.all() else view.d[:0]
    good = good and _agrees(view, predicted, use)
    if outside.size and good and rms(outside) > max(0.3 * view.error, 2.0 * view.noise):
        good = False
    share = remaining / whole_error if whole_error else 0.0
    return LineFit(axis, gain, offset, share, good, _exact(view, predicted, use, axis), per_slice)


def _exact(view: SampledTensors, predicted: Floats, use: Mask, axis: int | None) -> bool:
    """Whether *predicted* leaves no more than noise where it is used, also in the slice of *axis*
    where it leaves most."""
    if axis is None or not view.exact(predicted, use):
        return view.exact(predicted, use)
    rest = tuple(other for other in range(view.d.ndim) if other != axis)
    residuals = np.where(use, view.d - predicted, 0.0) ** 2
    worst = int(np.argmax(residuals.sum(axis=rest)))
    there = np.zeros(view.d.shape[axis], bool)
    there[worst] = True
    return view.exact(predicted, use & np.expand_dims(there, rest))


def _agrees(view: SampledTensors, predicted: Floats, use: Mask) -> bool:
    """Whether most single values follow the fit, not only the few with all of the energy."""
    # What is off by no more than noise follows nothing.
    smallest = np.maximum(2.0 * view.unit * np.abs(view.r), view.noise)
    seen = use & (np.abs(view.e) > smallest) & (view.e != 0.0)
    seen &= (np.abs(view.r) > _SMALLEST_NORMAL) | (np.abs(view.d) > _SMALLEST_NORMAL)
    if not seen.any():
        return True
    error, residuals = np.abs(view.e[seen]), np.abs(view.d - predicted)[seen]
    return float(np.mean(residuals <= 0.5 * error + view.unit * np.abs(view.r[seen]))) >= 0.6


def simplest(view: SampledTensors, fits: list[LineFit]) -> LineFit:
    """The fit with one parameter that leaves least, the one with both only if neither fits. Where
    gain and offset fit equally well, the op's type decides."""
    single = [fit for fit in fits if fit.gain is None or fit.offset is None]
    if not single:
        return fits[0]
    alike = len(single) == 2 and single[0].exact is single[1].exact
    if alike and abs(single[0].left - single[1].left) < 0.05:
        if set(view.case.types) & _MULTIPLIES and not set(view.case.types) & _ADDS:
            return single[1]
        if set(view.case.types) & _ADDS and not set(view.case.types) & _MULTIPLIES:
            return single[0]
    return min(single, key=lambda fit: fit.left)


def wrong_slices(view: SampledTensors, axis: int) -> Places:
    """The numbers of the slices of an axis with an error that noise does not explain, the worst
    first."""
    rest = tuple(other for other in range(view.d.ndim) if other != axis)
    energies = np.sum(view.e**2, axis=rest)
    count = view.d.size // energies.size
    own = view.case.floor * np.sqrt(np.sum(view.r**2, axis=rest) / count)
    noise = own if view.case.beyond_noise else np.maximum(view.noise, own)
    wrong = energies > np.maximum(_LEAST * float(energies.max()), count * (_OF_NOISE * noise) ** 2)
    order = np.argsort(energies)[::-1]
    return np.asarray(order[wrong[order]])


def beyond_noise(view: SampledTensors) -> FaultEvidence | None:
    """The case with all slices of an axis as expected but a few, whose errors noise does not
    explain: then the noise of the many hides nothing of them. None where no axis has such slices.
    """
    device, reference = view.case.device, view.case.reference
    for axis in view.axes():
        rest = tuple(other for other in range(view.d.ndim) if other != axis)
        wrong, floor = wrong_slices(view, axis), view.case.floor
        if not wrong.size:
            # Noise that is a share of each value is less than that of all in a slice of small ones.
            sizes, errors = (np.sqrt(np.sum(array**2, axis=rest)) for array in (view.r, view.e))
            ratios = errors / np.maximum(sizes, TINY)
            others = float(np.quantile(ratios, 1.0 - PART))
            wrong = np.flatnonzero(ratios > _OF_NOISE * max(floor, others))
            floor *= float(sizes[wrong].max(initial=0.0) / np.sqrt(np.mean(sizes**2)))
        if view.steps[axis] != 1 or not 0 < wrong.size <= PART * view.d.shape[axis]:
            continue
        there = np.zeros(view.d.shape[axis], bool)
        there[wrong] = True
        cleaned = np.where(np.expand_dims(there, rest), device, reference).astype(device.dtype)
        return replace(view.case, device=cleaned, floor=floor, beyond_noise=True)
    return None
