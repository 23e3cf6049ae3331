"""How close the values of two tensors are, as they lie or in another order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphstore.model import Reorder

Array: TypeAlias = npt.NDArray[Any]

FAR = float("inf")
_BLOCKS = (8, 16, 4, 32)
_MOST_AXES = 5


def distance(device: Array, golden: Array) -> float:
    """|device - golden| / |golden| (Euclidean) over elements finite on both sides.

    FAR if sizes differ or NaN and infinities are not at the same places.
    """
    if device.size != golden.size:
        return FAR
    left = np.asarray(device, np.float64).reshape(-1)
    right = np.asarray(golden, np.float64).reshape(-1)
    finite = np.isfinite(right)
    if not finite.all():
        if not np.array_equal(finite, np.isfinite(left)):
            return FAR
        left, right = left[finite], right[finite]
    elif not np.isfinite(left).all():
        return FAR
    scale = float(np.linalg.norm(right))
    apart = float(np.linalg.norm(left - right))
    if scale == 0.0:
        return 0.0 if apart == 0.0 else FAR
    return apart / scale


def reordered(device: Array, reorder: Reorder, golden_shape: Sequence[int]) -> Array | None:
    """*device* in the golden tensor's order and shape; None if it cannot be that order."""
    value = device
    if reorder.block:
        value_or_none = _unblocked(value, reorder.block, golden_shape)
        if value_or_none is None:
            return None
        value = value_or_none
    if reorder.axes:
        if value.ndim != len(reorder.axes):
            return None
        value = value.transpose(reorder.axes)
    if value.size != int(np.prod(golden_shape, dtype=np.int64)):
        return None
    return value.reshape(tuple(golden_shape))


def best_reorder(device: Array, golden: Array) -> tuple[Reorder, float] | None:
    """The order in which *device* comes closest to *golden*, and how close that is."""
    found: tuple[Reorder, float] | None = None
    for reorder in _orders(device, golden):
        value = reordered(device, reorder, golden.shape)
        if value is None:
            continue
        apart = distance(value, golden)
        if found is None or apart < found[1]:
            found = (reorder, apart)
    return found


def _orders(device: Array, golden: Array) -> Iterator[Reorder]:
    rank = device.ndim
    if rank == golden.ndim and 2 <= rank <= _MOST_AXES and device.size == golden.size:
        same = tuple(range(rank))
        for axes in itertools.permutations(same):
            if axes != same and tuple(device.shape[axis] for axis in axes) == golden.shape:
                yield Reorder(axes=axes)
    if rank >= 3 and golden.ndim == rank and device.size >= golden.size:
        yield from (Reorder(block=block) for block in _BLOCKS)


def _unblocked(value: Array, block: int, golden_shape: Sequence[int]) -> Array | None:
    if value.ndim < 3 or len(golden_shape) != value.ndim or value.shape[1] % block:
        return None
    if (value.shape[0], *value.shape[2:]) != (golden_shape[0], *golden_shape[2:]):
        return None
    if not golden_shape[1] <= value.shape[1] < golden_shape[1] + block:
        return None
    batch, channels, *space = value.shape
    blocks = value.reshape(batch, channels // block, *space, block)
    plain = np.moveaxis(blocks, -1, 2).reshape(batch, channels, *space)
    return plain[:, : golden_shape[1]]
