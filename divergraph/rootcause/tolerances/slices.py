"""Errors in one slice of a tensor: a channel, a row, a head, a step of time.

One weight that is wrong spoils one channel of a hundred, and the norm of all of them hides it. So
each slice along each axis is held against its own noise, and where errors are known one by one,
against what all other slices repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.values import TINY, robust_spread

_MOST = 1 << 22
"""Elements that are looked at; of larger tensors every k-th along the longest axis. Bounds cost."""


def slice_suspicion(
    reference: Array, device: Array, imitations: Sequence[Array], unit: float, smallest: float
) -> float:
    """Error over noise of the worst slice along any axis, less the allowance for chance, to be held
    against the limits of suspicion; 0 without slices of enough values.

    All arrays are floats of one shape. *unit* is the least noise relative to a slice's own norm,
    *smallest* that of every element.
    """
    suspicion = 0.0
    energies = _energies(reference, device, imitations, smallest)
    for (wrong, own, sizes, seen), shared in zip(
        energies, _shared(reference, imitations, calibration.SLICES_LEAST), strict=False
    ):
        few = reference.size / sizes.size < calibration.SLICE_LEAST_VALUES
        usual = own if few else np.maximum(own, _of_few(own, seen, shared))
        suspicion = max(suspicion, _of_axis((wrong, usual, sizes), unit, few=few))
    return suspicion


def _energies(
    reference: Array,
    device: Array,
    imitations: Sequence[Array],
    smallest: float,
    slices: int | None = None,
    joined: np.ufunc = np.maximum,
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """By axis the norms of the error, the noise and the values of each slice, and how many of its
    values err or may; nothing for tensors too small to have slices, or not finite. The noise of an
    element is the largest of the imitations, or the root mean square of them, *joined* by a sum."""
    if reference.ndim < 2 or reference.size < calibration.PART_LEAST_VALUES:
        return
    right, actual, *imitated = _looked_at(reference, device, *imitations)
    with np.errstate(all="ignore"):
        wrong = np.square(actual - right)
        usual = np.square(imitated[0] - right)
        for imitation in imitated[1:]:
            joined(usual, np.square(imitation - right), out=usual)
        sizes = np.square(right)
    if joined is np.add:
        usual /= len(imitated)
    if not all(math.isfinite(float(np.sum(energy))) for energy in (wrong, usual, sizes)):
        return
    seen = (wrong > 0.0) | (usual > 0.0)
    del right, actual, imitated  # whole tensors, while the caller makes others
    for norms in _along_axes((wrong, usual + smallest**2, sizes, seen), slices):
        yield norms[0], norms[1], norms[2], np.square(norms[3])


def lone_slice(
    reference: Array, device: Array, imitations: Sequence[Array], unit: float, smallest: float
) -> float:
    """How many times as far over its noise as the others of its axis the worst slice is, where the
    others are so alike that chance does not make it; 0 where they are not. Arguments as above.

    Arithmetic that is not emulated makes all slices err more, so it is no excuse for one of them.
    """
    ratio = 0.0
    fewest = calibration.STANDING_OUT_PEERS + 2  # so that most are others
    energies = _energies(reference, device, imitations, smallest, fewest, np.add)
    # Where there are energies there is a share for the same axes.
    for (wrong, usual, sizes, seen), shared in zip(
        energies, _shared(reference, imitations, fewest), strict=False
    ):
        there = (sizes > 0.0) & (wrong > 0.0) & (seen >= calibration.SLICE_LEAST_VALUES)
        if there.sum() < fewest:
            continue
        explained = _explained(usual, sizes, unit)
        logs = np.log((wrong / np.maximum(explained, TINY))[there])
        middle = float(np.median(logs))
        spread = robust_spread(logs)
        # The norm of few errors varies by itself, however alike those of other slices are: behind a
        # Relu most values of a channel are 0 and have none; a gate makes one error of them all.
        spreads = np.maximum(spread, 0.5 * np.sqrt(np.maximum(1.0 / seen[there], shared[there])))
        alone = logs[logs - middle > calibration.LONE_SIGMA * spreads]
        if alone.size:
            ratio = max(ratio, math.exp(min(alone.max() - max(middle, 0.0), 700.0)))
    return ratio


def _shared(reference: Array, imitations: Sequence[Array], slices: int) -> Iterator[Array]:
    """By axis, as :func:`_energies` has them, the share of the imitated errors of each slice that
    is one number: a factor of its values, as a gate of its own makes, or a shift."""
    right, *imitated = _looked_at(reference, *imitations)
    errors = [imitation - right for imitation in imitated]
    del imitated
    for axis, count in enumerate(right.shape):
        if count < slices:
            continue
        others = tuple(n for n in range(right.ndim) if n != axis)
        sizes, values = np.sum(np.square(right), others), right.size // count
        one = all_of_them = np.zeros(count)
        for error in errors:
            factor = np.square(np.sum(error * right, others)) / np.maximum(sizes, TINY)
            one = one + np.maximum(factor, np.square(np.sum(error, others)) / values)
            all_of_them = all_of_them + np.sum(np.square(error), others)
        yield one / np.maximum(all_of_them, TINY)


def departing_suspicion(
    reference: Array, device: Array, imitation: Array, unit: float, smallest: float, step: float
) -> float | None:
    """Distance from the imitation over noise of the slice that departs furthest, where in nearly
    all slices along its axis the imitation has the device's very errors; None where it has not.

    Rounding that is repeated is no chance: what makes it in all other slices makes it in this one,
    but for values next to a tie, which may be a *step* of a quantiser off. *unit* and *smallest*
    are as for :func:`slice_suspicion`.
    """
    if reference.ndim < 2:
        return None
    right, actual, imitated = _looked_at(reference, device, imitation)
    with np.errstate(all="ignore"):
        distances = np.square(np.maximum(np.abs(actual - imitated) - step, 0.0))
        energies = distances, np.square(imitated - right) + smallest**2, np.square(right)
    if not all(math.isfinite(float(np.sum(energy))) for energy in energies):
        return None
    departures = [
        _departing(norms, unit, right.size / norms[0].size) for norms in _along_axes(energies)
    ]
    return max((departure for departure in departures if departure is not None), default=None)


def _of_few(usual: Array, seen: Array, shared: Array) -> Array:
    """What noise of the usual size is in slices with few errors, or with one that most *shared*,
    such as a channel behind a Relu that is 0 but for one value, or one whose inputs hardly vary:
    the imitation's own may be small by luck; 0 for others."""
    there = seen > 0
    with np.errstate(divide="ignore"):
        own_errors = 1.0 / np.maximum(1.0 / seen, shared)
    few = there & (own_errors < calibration.SLICE_LEAST_VALUES)
    if not few.any():
        return np.zeros_like(usual)
    of_one = np.median(usual[there] / np.sqrt(seen[there]))
    return np.where(few, of_one * np.sqrt(seen), 0.0)


def _departing(norms: Sequence[Array], unit: float, values: float) -> float | None:
    """As above, along one axis whose slices have so many *values*. The noise of a slice is at least
    half of what is usual, that of few values all of it: their own may be small by luck."""
    distances, usual, sizes = norms
    share = 1.0 if values < calibration.SLICE_LEAST_VALUES else 0.5
    explained = np.maximum(np.maximum(usual, share * np.median(usual)), unit * sizes)
    ratios = distances / np.maximum(explained, TINY)
    if np.quantile(ratios, calibration.SLICES_REPEATED) > calibration.SLICES_ALIKE:
        return None
    return float(ratios.max())


def flat_suspicion(reference: Array, device: Array, flat: float, scale: float) -> float:
    """Error over noise of the worst slice along any axis, where noise is a *flat* share of the
    values: of a slice's own, or of their usual size *scale* in all of the tensor.

    No allowance for chance: such a share is more than healthy kernels lose, slice by slice, and
    what a loop makes of one wrong turn in those after it would count as a spread of errors.
    """
    right, actual = _looked_at(reference, device) if reference.ndim > 1 else (reference, device)
    with np.errstate(all="ignore"):
        energies = np.square(actual - right), np.square(right)
    if reference.ndim < 2 or not all(math.isfinite(float(np.sum(energy))) for energy in energies):
        return 0.0
    suspicion = 0.0
    for wrong, sizes in _along_axes(energies):
        count = right.size / sizes.size
        if count >= calibration.SLICE_LEAST_VALUES:
            explained = flat * np.maximum(sizes, scale * math.sqrt(count))
            suspicion = max(suspicion, float(np.max(wrong / np.maximum(explained, TINY))))
    return suspicion


def _looked_at(*arrays: Array) -> list[Array]:
    """The elements of arrays of one shape that are looked at."""
    shape = arrays[0].shape
    axis, step = int(np.argmax(shape)), -(-arrays[0].size // _MOST) or 1
    places = tuple(slice(None, None, step if n == axis else 1) for n in range(len(shape)))
    return [np.asarray(array[places], np.float64) for array in arrays]


def _along_axes(energies: Sequence[Array], slices: int | None = None) -> Iterator[list[Array]]:
    """The norms of all slices along each axis that has enough of them: *slices*, or as many as tell
    a spread."""
    shape = energies[0].shape
    for axis, count in enumerate(shape):
        if count < (calibration.SLICES_LEAST if slices is None else slices):
            continue
        others = tuple(n for n in range(len(shape)) if n != axis)
        yield [np.sqrt(np.sum(energy, axis=others)) for energy in energies]


def _of_axis(norms: Sequence[Array], unit: float, *, few: bool) -> float:
    """The ratio of error to noise of the worst slice of one axis, less what so many slices of
    such different ratios reach by chance. Slices of *few* values tell something only where the
    imitation has the very errors of nearly all of them."""
    wrong, usual, sizes = norms
    there = sizes > 0.0
    explained = _explained(usual, sizes, unit)
    ratios = wrong / np.maximum(explained, TINY)
    logs = np.log(ratios[(ratios > 0.0) & there])
    if logs.size < calibration.SLICES_LEAST:
        return 0.0
    spread = robust_spread(logs)
    if few and spread > calibration.SLICES_ALIKE:
        return 0.0
    chance = math.exp(min(spread * math.sqrt(2.0 * math.log(logs.size)), 10.0))
    return float(ratios[there].max()) / min(max(chance, 1.0), calibration.PART_UNSURE)


def _explained(usual: Array, sizes: Array, unit: float) -> Array:
    """The noise of each slice. Weights that a type holds exactly make none in their channel, which
    is luck of the imitation: no slice is more exact than half of what is usual among the others."""
    there = sizes > 0.0
    typical = float(np.median(usual[there] / sizes[there])) if there.any() else 0.0
    return np.asarray(np.maximum(usual, max(unit, 0.5 * typical) * sizes))
