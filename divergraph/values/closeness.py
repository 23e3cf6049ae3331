"""How close the values of two tensors are, in the order they have or in another one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from divergraph.values.array_types import Array, Int64
from divergraph.values.orders import may_block, reordered
from divergraph.values.zero_points import is_8_bit, with_zero_of
from graphstore.model import Reorder

FAR = float("inf")
AS_IT_LIES = 0.02
"""Relative distance below which no other order of the axes is tried."""
_BLOCKS = (8, 16, 4, 32)
_MOST_AXES = 5
_BLOCK = 1 << 13
"""Elements in a block: they stay in the cache, and are too few for BLAS to start threads."""
_SAMPLES = 1024
_TOO_FAR = 1.0
"""Squared relative distance of samples up to which tensors may be near: unrelated tensors have 1.4
to 2, int8 noise 0.1."""


def distance(device: Array, golden: Array) -> float:
    """|device - golden| / |golden| (Euclidean) over elements finite on both sides.

    ``FAR`` if the sizes differ, or NaN and infinities are not at the same places. For 8-bit
    integers the mean of golden is taken off first, as all tensors quantised about one zero point
    share it; between int8 and uint8 the zero point may have been moved.
    """
    if device.size != golden.size:
        return FAR
    centre = 0.0
    if is_8_bit(golden) and is_8_bit(device):
        device = with_zero_of(device, golden)
        centre = float(golden.mean()) if golden.size else 0.0
    device_flat, right = device.reshape(-1), golden.reshape(-1)
    error_squares = scale = 0.0
    for start in range(0, device_flat.size, _BLOCK):
        golden_part = right[start : start + _BLOCK].astype(np.float64)
        other = device_flat[start : start + _BLOCK].astype(np.float64)
        finite = np.isfinite(golden_part)
        if not np.array_equal(finite, np.isfinite(other)):
            return FAR
        if not finite.all():
            golden_part, other = golden_part[finite], other[finite]
        np.subtract(golden_part, other, out=other)
        golden_part -= centre
        scale += float(np.vdot(golden_part, golden_part))
        error_squares += float(np.vdot(other, other))
    if scale == 0.0:
        return 0.0 if error_squares == 0.0 else FAR
    return math.sqrt(error_squares) / math.sqrt(scale)


def is_near(device: Array, golden: Array, reorder: Reorder | None = None) -> bool:
    """False if a sample of some hundred elements shows that the two are far apart. *device* is
    sampled in the order *reorder*, which must lead to golden's shape (:func:`reordered`)."""
    places = _places(golden.size)
    there = golden.reshape(-1)[places]
    here = with_zero_of(_picked(device, reorder, golden.shape, places), there)
    right, device_part = there.astype(np.float64), here.astype(np.float64)
    finite = np.isfinite(right) & np.isfinite(device_part)
    right, device_part = right[finite], device_part[finite]
    scale = float(np.vdot(right, right))
    return (
        float(np.vdot(device_part - right, device_part - right)) <= _TOO_FAR * scale or scale == 0.0
    )


@lru_cache(64)
def _places(size: int) -> Int64:
    return np.random.default_rng(size).integers(0, size, min(size, _SAMPLES))


def _picked(
    device: Array, reorder: Reorder | None, golden_shape: Sequence[int], places: Array
) -> Array:
    if reorder is None:
        return device.reshape(-1)[places]
    at = np.unravel_index(places, tuple(golden_shape))
    if reorder.axes:
        view = device.transpose(reorder.axes)
        return view[at] if view.shape == tuple(golden_shape) else view.reshape(-1)[places]
    batch, channels, *space = device.shape
    blocks = device.reshape(batch, channels // reorder.block, *space, reorder.block)
    picked: Array = blocks[(at[0], at[1] // reorder.block, *at[2:], at[1] % reorder.block)]
    return picked


def best_reorder(device: Array, golden: Array) -> tuple[Reorder, float] | None:
    """The order of axes in which *device* is closest to *golden*, and their distance; None if it is
    far from golden in all of them."""
    best: tuple[Reorder, float] | None = None
    for reorder in _orders(device, golden):
        if not is_near(device, golden, reorder):
            continue
        value = reordered(device, reorder, golden.shape)
        if value is None:
            continue
        distance_of_form = distance(value, golden)
        if best is None or distance_of_form < best[1]:
            best = (reorder, distance_of_form)
    return best


def only_order(device: tuple[int, ...], golden: tuple[int, ...]) -> Reorder | None:
    """The order of axes that gives shape *golden*, if there is exactly one; values are not read."""
    if len(device) != len(golden) or not 2 <= len(device) <= _MOST_AXES:
        return None
    fitting = {
        tuple(axis for axis in axes if device[axis] != 1): axes for axes in _fitting(device, golden)
    }
    return Reorder(axes=next(iter(fitting.values()))) if len(fitting) == 1 else None


def _fitting(device: tuple[int, ...], golden: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The orders of axes that give shape *golden*, the present one first."""
    for axes in itertools.permutations(range(len(device))):
        if tuple(device[axis] for axis in axes) == golden:
            yield axes


def _orders(device: Array, golden: Array) -> Iterator[Reorder]:
    rank = device.ndim
    if golden.size == 0:
        return
    if rank == golden.ndim and 2 <= rank <= _MOST_AXES and device.size == golden.size:
        same = tuple(range(rank))
        for axes in _fitting(device.shape, golden.shape):
            if axes != same:
                yield Reorder(axes=axes)
    yield from (Reorder(block=block) for block in _BLOCKS if may_block(device, block, golden.shape))
