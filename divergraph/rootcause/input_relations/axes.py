"""Axes of an input in another direction or order, in memory as well."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.input_relations.contract import Guess, InputRelations

_FEW = 4
"""An axis of so many indices may have any order of them: channels of an image."""
_MOST_AXES = 4
"""Of more axes only those orders are tried in which one of them moved: there are too many."""
_IMAGE, _TWO = 4, 2
_LAYOUTS = {(0, 2, 3, 1): "NHWC for NCHW", (0, 3, 1, 2): "NCHW for NHWC"}


def flipped(golden: Array, _: Array | None) -> Iterator[Guess]:
    """One axis, or the last two, from the other end."""
    axes = [axis for axis, size in enumerate(golden.shape) if size > _FEW]
    for axis in axes:
        yield Guess(f"flipped along axis {axis}{_side(golden, axis)}", np.flip(golden, axis))
    if len(axes) > 1:
        both = tuple(axes[-2:])
        yield Guess(f"turned by 180 degrees in axes {both[0]} and {both[1]}", np.flip(golden, both))


def _side(golden: Array, axis: int) -> str:
    if golden.ndim != _IMAGE:
        return ""
    rows = 2 if golden.shape[1] <= _FEW else 1
    return {rows: " (upside down)", rows + 1: " (left for right)"}.get(axis, "")


def permuted(golden: Array, _: Array | None) -> Iterator[Guess]:
    """The indices of a short axis in each other order."""
    for axis, size in enumerate(golden.shape):
        if not 1 < size <= _FEW:
            continue
        for order in permutations(range(size)):
            moved = [index for index in range(size) if order[index] != index]
            if not moved:
                continue
            if len(moved) == _TWO:
                words = f"with indices {moved[0]} and {moved[1]} of axis {axis} exchanged"
            else:
                now = _listed([order[axis] for axis in moved])
                words = f"with indices {now} in the places {_listed(moved)} of axis {axis}"
            words += " (RGB for BGR)" if moved == [0, 2] and axis else ""
            words += " (another order of the batch)" if axis == 0 else ""
            yield Guess(words, golden.take(order, axis))


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def exchanged(golden: Array, _: Array | None) -> Iterator[Guess]:
    """Axes of like size exchanged; the same numbers in memory in another order of the axes."""
    shape, axes = golden.shape, range(golden.ndim)
    for order in _orders(golden.ndim):
        moved = [axis for axis in axes if order[axis] != axis]
        if tuple(shape[axis] for axis in order) == shape:
            words = f"with axes {_listed(moved)} exchanged"
            yield Guess(words, golden.transpose(order))
            continue
        name = f" ({_LAYOUTS[order]})" if order in _LAYOUTS else ""
        memory_words = (
            f"with its numbers in memory in the order of axes {_listed(list(order))}{name}"
        )
        yield Guess(memory_words, golden.transpose(order).reshape(shape))
        read = golden.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))
        if not np.array_equal(read, golden.transpose(order).reshape(shape)):
            yield Guess(f"read as if its axes were in the order {_listed(list(order))}{name}", read)


def _orders(ndim: int) -> Iterator[tuple[int, ...]]:
    straight = tuple(range(ndim))
    if ndim <= _MOST_AXES:
        yield from (order for order in permutations(straight) if order != straight)
        return
    seen = {straight}
    for axis in straight:
        for place in straight:
            rest = [other for other in straight if other != axis]
            order = (*rest[:place], axis, *rest[place:])
            if order not in seen:
                seen.add(order)
                yield order


RELATIONS = InputRelations(arranged=(permuted, flipped, exchanged))
