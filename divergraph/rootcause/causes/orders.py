"""The right values in the wrong places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from divergraph.rootcause.causes.contract import CauseRule, CauseStage
from divergraph.rootcause.causes.evidence import Array, Cause, SampledTensors, rms
from divergraph.rootcause.causes.limits import ENOUGH, LEFT, LIKELY, SURE
from divergraph.rootcause.causes.words import ranges_text

_PROBES = 4096
"""Positions at which an order is checked. Bounds cost: an order that fits all of them is right."""
_LARGEST_SORT = 1 << 25
"""Elements of the largest tensor that is sorted whole; of larger ones the sample is. Bounds cost,
like the longest axis whose slices are compared."""
_LARGEST_AXIS = 2048
_BLOCKS = (16, 32, 8, 4)
"""Channels in a block (C0) of device layouts, the usual one first."""
_LAGS = 8
"""Places by which an axis is tried as shifted."""
_LIKE_CHANCE = 0.5
"""How far apart sorted values may be to count as the same, as a share of what two samples of one
distribution are."""


def reordered(view: SampledTensors) -> Cause | None:
    """The expected values in another order, one of the common mix-ups."""
    if view.d.size < 4 or view.error <= _least(view):
        return None
    cause, probes = _shifted(view), _Probes(view)
    orders = () if cause else _candidates(view.case.reference.shape, probes)
    for words, places in orders:
        if probes.fit(places):
            cause = Cause("reordered", f"the right values in another order: {words}", SURE)
            break
    if cause is None:
        return None
    evidence = {**cause.evidence, "elements": int(view.case.device.size)}
    return Cause(cause.label, cause.sentence, view.sure, evidence)


def shuffled(view: SampledTensors) -> Cause | None:
    """The expected values in some other order."""
    if view.d.size < 4 or view.error <= _least(view) or not same_values(view):
        return None
    return Cause(
        "reordered",
        "the right values in another order (sorted, both sides are equal); the order is none of "
        "the usual ones",
        min(view.sure, LIKELY),
        {"elements": int(view.case.device.size)},
    )


def _least(view: SampledTensors) -> float:
    """The error below which nothing can be said of an order."""
    return max(3.0 * view.noise, 0.01 * view.spread)


def same_values(view: SampledTensors) -> bool:
    """Whether both sides hold the same values in any order, up to noise; of huge tensors, whether
    their samples do."""
    all_values = view.case.device.size <= _LARGEST_SORT
    d = np.asarray(view.case.device, np.float32).reshape(-1) if all_values else view.d.reshape(-1)
    r = (
        np.asarray(view.case.reference, np.float32).reshape(-1)
        if all_values
        else view.r.reshape(-1)
    )
    if not (np.isfinite(d).all() and np.isfinite(r).all()):
        return False
    if abs(rms(view.d) - rms(view.r)) > max(0.03 * view.error, 1.2 * view.noise):
        return False  # if the norms differ by that much, so do the sorted values
    ordered = np.asarray(np.sort(r), np.float64)
    distance = rms(np.sort(d).astype(np.float64) - ordered)
    if distance <= 0.03 * view.error:
        # Far nearer than the error: the same values, if what is left is no more than noise.
        factor = 3.0 if view.error > 0.1 * view.spread else 0.25
        is_alike = distance <= factor * view.noise or distance == 0.0
    else:
        far = view.error > 0.4 * view.spread and view.error > 10.0 * view.noise
        is_alike = far and distance <= 1.2 * view.noise
    return is_alike and distance <= _LIKE_CHANCE * _chance(ordered)


def _chance(ordered: Array) -> float:
    """How far apart (RMS) two sorted samples of the same distribution are."""
    rng = np.random.default_rng(13)
    drawn = np.sort(ordered[rng.integers(0, ordered.size, ordered.size)])
    return rms(drawn - ordered)


class _Probes:
    """Random positions at which the device is compared with the reference at other positions."""

    def __init__(self, view: SampledTensors) -> None:
        size = view.case.reference.size
        rng = np.random.default_rng(7)
        count = min(size, _PROBES)
        self.flat = np.arange(size) if size <= _PROBES else np.sort(rng.integers(0, size, count))
        self._d = np.asarray(view.case.device).reshape(-1)[self.flat].astype(np.float64)
        self._r = np.asarray(view.case.reference).reshape(-1)
        self._error = rms(self._d - self._r[self.flat])
        self._noise = view.noise

    def fit(self, places: Array, where: Array | None = None) -> bool:
        """Whether the device has at its probes the reference's values at flat *places*; only of the
        probes *where*, if given."""
        d, error = self._d, self._error
        if where is not None:
            d = d[where]
            error = rms(d - self._r[self.flat[where]])
        if d.size < 4 or error == 0.0:
            return False
        error_left = rms(d - self._r[places].astype(np.float64))
        return error_left <= max(0.5 * LEFT * error, min(2.0 * self._noise, 0.3 * error))


def _candidates(shape: tuple[int, ...], probes: _Probes) -> Iterator[tuple[str, Array]]:
    """The usual mix-ups of memory orders, in words, with the flat place each probe comes from."""
    axes = len(shape)
    if 2 <= axes <= 5:
        for order in permutations(range(axes)):
            if order != tuple(range(axes)):
                yield _transposed(shape, order, probes)
    for axis in range(axes):
        if shape[axis] > 1:
            at = list(np.unravel_index(probes.flat, shape))
            at[axis] = shape[axis] - 1 - at[axis]
            yield f"axis {axis} runs backwards", np.ravel_multi_index(tuple(at), shape)
    if 3 <= axes <= 5:
        for block in _BLOCKS:
            if shape[1] % block == 0 and shape[1] > block:
                yield from _blocked(shape, block, probes)


def _transposed(
    shape: tuple[int, ...], order: tuple[int, ...], probes: _Probes
) -> tuple[str, Array]:
    memory = tuple(shape[axis] for axis in order)
    at = np.unravel_index(probes.flat, memory)
    back: list[Array] = [at[0]] * len(shape)
    for place, axis in enumerate(order):
        back[axis] = at[place]
    names = "NCHW" if len(shape) == 4 else "NCDHW" if len(shape) == 5 else ""
    if names and order == (0, *range(2, len(shape)), 1):
        words = f"memory of channels last ({_letters(names, order)}) was read as {names}"
    elif names and order == (0, len(shape) - 1, *range(1, len(shape) - 1)):
        words = f"memory of {names} was read as channels last ({_letters(names, order)})"
    elif len(shape) == 2:
        words = "the matrix is transposed in memory"
    else:
        words = f"memory in axis order {','.join(map(str, order))} was read as if in order"
    return words, np.ravel_multi_index(tuple(back), shape)


def _letters(names: str, order: tuple[int, ...]) -> str:
    return "".join(names[axis] for axis in order)


def _blocked(shape: tuple[int, ...], block: int, probes: _Probes) -> Iterator[tuple[str, Array]]:
    inner = int(np.prod(shape[2:]))
    split = (shape[0], shape[1] // block, block, inner)
    for order, words in (
        ((0, 1, 3, 2), f"channel blocks of {block} (NC1HWC0) were not undone"),
        ((0, 3, 1, 2), f"channels come last, in blocks of {block}"),
    ):
        memory = tuple(split[axis] for axis in order)
        at = np.unravel_index(probes.flat, memory)
        back: list[Array] = [at[0]] * 4
        for place, axis in enumerate(order):
            back[axis] = at[place]
        yield words, np.ravel_multi_index(tuple(back), split)


def _shifted(view: SampledTensors) -> Cause | None:
    """All values moved by a few places, in memory or along one axis."""
    probes = _Probes(view)
    shape, size = view.case.reference.shape, view.case.reference.size
    for axis in reversed(range(len(shape))):
        length = shape[axis]
        for lag in (sign * n for n in range(1, min(_LAGS, length // 2) + 1) for sign in (1, -1)):
            at = list(np.unravel_index(probes.flat, shape))
            from_there = at[axis] - lag
            inside = (from_there >= 0) & (from_there < length)
            around = list(at)
            around[axis] = from_there % length
            if probes.fit(np.ravel_multi_index(tuple(around), shape)):
                return _shift_cause(lag, axis, "around the end, as a roll does")
            at[axis] = np.clip(from_there, 0, length - 1)
            cut = [index[inside] for index in at]
            enough = inside.sum() >= 0.4 * inside.size and length > 2 * abs(lag) + 1
            if enough and probes.fit(np.ravel_multi_index(tuple(cut), shape), inside):
                return _shift_cause(lag, axis, "")
    for lag in _flat_lags(view):
        moved = probes.flat - lag
        inside = (moved >= 0) & (moved < size)
        if inside.sum() >= 0.75 * inside.size and probes.fit(moved[inside], inside):
            return Cause(
                "reordered",
                f"the right values, {abs(lag)} places {'late' if lag > 0 else 'early'} in memory: "
                "a wrong offset",
                SURE,
                {"lag": int(lag)},
            )
    return None


def _shift_cause(lag: int, axis: int, around: str) -> Cause:
    ends = f", {around}" if around else ""
    return Cause(
        "reordered",
        f"the right values, shifted by {lag:+d} along axis {axis}{ends}",
        SURE,
        {"axis": axis, "lag": lag},
    )


def _flat_lags(view: SampledTensors) -> list[int]:
    """The three likeliest shifts in memory, by cross-correlation of the first 65536 elements."""
    size = min(view.case.reference.size, 1 << 16)
    if size < 64:
        return []
    d = np.asarray(view.case.device).reshape(-1)[:size].astype(np.float64)
    r = np.asarray(view.case.reference).reshape(-1)[:size].astype(np.float64)
    if not (np.isfinite(d).all() and np.isfinite(r).all()):
        return []
    spectrum = np.fft.rfft(d - d.mean(), 2 * size) * np.conj(np.fft.rfft(r - r.mean(), 2 * size))
    product = np.fft.irfft(spectrum, 2 * size)
    best = np.argsort(product)[::-1][:3]
    lags = [int(place) if place < size else int(place) - 2 * size for place in best]
    return [lag for lag in lags if lag != 0]


def moved_slices(view: SampledTensors) -> Cause | None:
    """Whole slices of an axis in another order, or holding the values of other slices."""
    if view.sampled or view.error <= _least(view):
        return None
    for axis in range(view.d.ndim):
        length = view.d.shape[axis]
        if not 2 <= length <= _LARGEST_AXIS or view.d.size // length < 2:
            continue
        order = _order_of_slices(view, axis)
        if np.unique(order).size < length:
            exchanged = _exchanged(view, axis, order)
            if view.fits(np.take(view.r, exchanged, axis=axis), rest=0.5 * LEFT):
                order = exchanged
        permuted = np.unique(order).size == length
        if not permuted and view.d.size // length < ENOUGH:
            continue
        moved = np.flatnonzero(order != np.arange(length))
        if not permuted and not _follow(view, axis, order, moved):
            continue
        if moved.size and view.fits(np.take(view.r, order, axis=axis), rest=0.5 * LEFT):
            return (_permutation if permuted else _copies)(view, axis, order, moved.tolist())
    return None


def _exchanged(view: SampledTensors, axis: int, order: Array) -> Array:
    """*order* with the slices nobody holds given to those whose slice another holds as well: next
    to noise a slice may be as near to one as to the other, and nothing is lost in an exchange."""
    rest = tuple(other for other in range(view.d.ndim) if other != axis)
    places = np.arange(order.size)
    missing = np.setdiff1d(places, order)
    takers = places[(np.bincount(order, minlength=order.size)[order] > 1) & (order != places)]
    exchanged = order.copy()
    for number in missing.tolist():
        here = np.take(view.r, [number], axis)
        distances = np.sum(np.square(np.take(view.d, takers, axis) - here), axis=rest)
        if takers.size:
            nearest = int(np.argmin(distances))
            exchanged[takers[nearest]] = number
            takers = np.delete(takers, nearest)
    return exchanged


def _follow(view: SampledTensors, axis: int, order: Array, numbers: Array) -> bool:
    """Whether these slices of the device follow those of the reference they are nearest to in more
    than their mean: a slice of hardly more than one value is next to any that has it too."""
    rest = tuple(other for other in range(view.d.ndim) if other != axis)
    device = np.take(view.d, numbers, axis=axis)
    apart = rms(device - np.take(view.r, order[numbers], axis=axis))
    spread = rms(device - device.mean(axis=rest, keepdims=True))
    return max(apart, view.noise) < 0.5 * spread


def _permutation(view: SampledTensors, axis: int, order: Array, moved: list[int]) -> Cause:
    """The cause where slices are permuted, such as channels or the operands of a Concat."""
    how = _blocks_text(order, "Concat" in view.case.types)
    sentence = f"slices {ranges_text(moved)} of axis {axis} are right but in another order{how}"
    if len(moved) == 2:
        sentence = f"slices {moved[0]} and {moved[1]} of axis {axis} are swapped"
    evidence = {"axis": axis, "moved": len(moved), "order": order.tolist()[:64]}
    return Cause("reordered", sentence, view.sure, evidence)


def _copies(_view: SampledTensors, axis: int, order: Array, moved: list[int]) -> Cause:
    return Cause(
        "repeated_slices",
        f"{_slices(moved, axis)} {'holds' if len(moved) == 1 else 'hold'} the values of "
        f"{_slices(sorted(set(order[moved].tolist())), axis)}: part of the result was copied over "
        "another, or computed from the wrong part of the input",
        SURE,
        {"axis": axis, "slices": moved[:64], "held": order[moved].tolist()[:64]},
    )


def _slices(numbers: list[int], axis: int) -> str:
    return f"slice{'s' if len(numbers) > 1 else ''} {ranges_text(numbers)} of axis {axis}"


def _order_of_slices(view: SampledTensors, axis: int) -> Array:
    """For each slice of the device the number of the nearest slice of the reference, by random
    projections. Equal slices of the reference are each used once, if there are enough."""
    d = np.moveaxis(view.d, axis, 0).reshape(view.d.shape[axis], -1)
    r = np.moveaxis(view.r, axis, 0).reshape(view.d.shape[axis], -1)
    mix = np.random.default_rng(11).standard_normal((d.shape[1], 6))
    mine, theirs = d @ mix, r @ mix
    order = np.array(
        [int(np.argmin(np.sum((theirs - slice_values) ** 2, axis=1))) for slice_values in mine]
    )
    kind = np.unique(theirs, axis=0, return_inverse=True)[1].reshape(-1)
    for kind_number in np.flatnonzero(np.bincount(kind) > 1):
        takers, alike = (
            np.flatnonzero(kind[order] == kind_number),
            np.flatnonzero(kind == kind_number),
        )
        stay = np.intersect1d(takers, alike)
        others, free = np.setdiff1d(takers, stay), np.setdiff1d(alike, stay)
        order[stay] = stay
        order[others[: free.size]] = free[: others.size]
    return order


def _blocks_text(order: Array, concat: bool) -> str:
    starts = np.flatnonzero(np.diff(order) != 1) + 1
    blocks = [int(order[0]), *(int(order[place]) for place in starts)]
    if len(blocks) > 16:
        return ""
    operands = ": the operands of the Concat are in another order" if concat else ""
    return f" (blocks starting at {', '.join(map(str, blocks))}){operands}"


CAUSES = (
    CauseRule(reordered, CauseStage.ORDER, 20, {"reordered": LIKELY}, of_a_part=True),
    CauseRule(moved_slices, CauseStage.ORDER, 30, {"repeated_slices": LIKELY}, of_a_part=True),
    CauseRule(shuffled, CauseStage.VAGUE, 20, of_a_part=True),
)
