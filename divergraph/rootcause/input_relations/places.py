"""Slices of an input in other places: the batch in another order, a shift, other padding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.input_relations.contract import Guess, InputRelations

_MOST_SLICES = 512
_MOST_SAMPLED = 4096
_SHOWN = 8
_SMALLEST = 1e-9
"""Powers of a spectrum below this share of the largest are rounding."""
_ALIKE = 0.999
"""The least correlation of a device's slice with the one of golden it is taken for."""


def taken(golden: Array, device: Array | None) -> Iterator[Guess]:
    """Each slice of the device's along an axis is one of golden's: the batch in another order, the
    first item in all places."""
    if device is None or golden.size == 0:
        return
    for axis, size in enumerate(golden.shape):
        if not 1 < size <= _MOST_SLICES or golden.size == size:
            continue
        order = nearest_slices(golden, device, axis)
        if order is None or np.array_equal(order, np.arange(size)):
            continue
        more = ", ..." if size > _SHOWN else ""
        indices = ", ".join(map(str, order[:_SHOWN])) + more
        words = f"with the indices {indices} in the places 0, 1, 2, ... of axis {axis}"
        if axis == 0:
            words += " (another order of the batch)" if len(set(order)) == size else " (the batch)"
        # The order of a short axis is one of few; that of a long one was chosen out of very many.
        yield Guess(words, golden.take(order, axis), parameters=size)


def nearest_slices(golden: Array, device: Array, axis: int) -> Array | None:
    """By index of *axis* that of golden's slice which the device's is; None unless each is one."""
    ours, theirs = (_rows(array, axis) for array in (golden, device))
    if ours is None or theirs is None:
        return None
    similarity = theirs @ ours.T
    order = similarity.argmax(axis=1)
    return order if bool((similarity[np.arange(len(order)), order] >= _ALIKE).all()) else None


def _rows(values: Array, axis: int) -> Array | None:
    """The slices as rows of norm 1 around their mean, of at most 4096 elements; None if one of them
    is constant."""
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    step = -(-rows.shape[1] // _MOST_SAMPLED)
    rows = rows[:, ::step].astype(np.float64)
    rows = rows - rows.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / sizes if rows.shape[1] > 2 and bool((sizes > 0).all()) else None


def shifted(golden: Array, device: Array | None) -> Iterator[Guess]:
    """Along one axis, or along two neighbours, by the shift at which both are most alike."""
    if device is None:
        return
    long = [axis for axis, size in enumerate(golden.shape) if size > 4 and axis]
    groups: list[tuple[int, ...]] = [(axis,) for axis in long]
    groups += [pair for pair in pairwise(long) if pair[1] == pair[0] + 1]
    for axes in groups:
        steps = likeliest_shift(golden, device, axes)
        if any(steps):
            yield from shifts(golden, axes, steps)


def likeliest_shift(golden: Array, device: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shift of golden's along *axes*, up to half their lengths, most like the device's."""
    sides = [array - array.mean() for array in (golden, device)]
    first, second = (np.fft.fftn(side, axes=axes) for side in sides)
    others = tuple(axis for axis in range(golden.ndim) if axis not in axes)
    # Phases alone: what is smooth is most alike at any small shift.
    power = (second * first.conj()).sum(axis=others)
    power /= np.maximum(np.abs(power), _SMALLEST * np.abs(power).max(initial=0.0) or 1.0)
    total = np.fft.ifftn(power).real
    best = np.unravel_index(int(total.argmax()), total.shape)
    return tuple(
        int(place) if place <= size // 2 else int(place) - size
        for place, size in zip(best, total.shape, strict=True)
    )


def shifts(golden: Array, axes: tuple[int, ...], steps: tuple[int, ...]) -> Iterator[Guess]:
    """*golden* shifted by *steps* along *axes*; what comes in at the ends is guessed."""
    rolled = np.roll(golden, steps, axes)
    steps_text = " and ".join(
        f"by {step:+d} along axis {axis}" for axis, step in zip(axes, steps, strict=True) if step
    )
    yield Guess(f"shifted {steps_text}, what leaves at one end coming in at the other", rolled, 1)
    zeros, edges, unknown = rolled.copy(), rolled.copy(), rolled.copy()
    for axis, step in zip(axes, steps, strict=True):
        size = golden.shape[axis]
        new = slice(0, step) if step > 0 else slice(size + step, size)
        at = step if step > 0 else size + step - 1
        place = (slice(None),) * axis
        if step:
            zeros[(*place, new)] = 0
            unknown[(*place, new)] = np.nan
            edges[(*place, new)] = edges.take([at], axis)
    yield Guess(f"shifted {steps_text}, zeros coming in", zeros, 1)
    yield Guess(f"shifted {steps_text}, the edge coming in", edges, 1)
    yield Guess(f"shifted {steps_text}, other data coming in", unknown, 2)


def padded_at_the_other_side(golden: Array, _: Array | None) -> Iterator[Guess]:
    """Rows of the last axis that end in one repeated number begin with it, or the other way."""
    if golden.ndim == 0 or golden.shape[-1] < 2:
        return
    rows = golden.reshape(-1, golden.shape[-1])
    for filler, words in ((rows[0, -1], "left"), (rows[0, 0], "right")):
        if words == "left":
            moved = np.stack([np.roll(row, _run(row[::-1], filler)) for row in rows])
        else:
            moved = np.stack([np.roll(row, -_run(row, filler)) for row in rows])
        if not np.array_equal(moved, rows):
            yield Guess(f"padded at the {words}", moved.reshape(golden.shape))


def _run(row: Array, filler: float) -> int:
    """How many numbers at the start of a row are *filler*."""
    other = np.flatnonzero(row != filler)
    return int(other[0]) if other.size else 0


RELATIONS = InputRelations(arranged=(padded_at_the_other_side, taken, shifted))
