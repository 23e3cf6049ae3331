"""The order of a device tensor's axes and channels changed into golden's."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.values.array_types import Array
from graphstore.model import Reorder


def reordered(device: Array, reorder: Reorder, golden_shape: Sequence[int]) -> Array | None:
    """*device* in golden's order of axes and shape; None if *reorder* does not lead to that
    shape."""
    value = device
    if reorder.block:
        if not may_block(value, reorder.block, golden_shape):
            return None
        value = _unblocked(value, reorder.block, golden_shape)
    if reorder.axes:
        if value.ndim != len(reorder.axes):
            return None
        value = value.transpose(reorder.axes)
    if value.size != prod(golden_shape):
        return None
    return value.reshape(tuple(golden_shape))


def may_block(value: Array, block: int, golden_shape: Sequence[int]) -> bool:
    """Whether undoing channel blocks of *block* (the last one padded) gives such a shape."""
    if value.ndim < 3 or len(golden_shape) != value.ndim or value.shape[1] % block:
        return False
    if (value.shape[0], *value.shape[2:]) != (golden_shape[0], *golden_shape[2:]):
        return False
    return bool(golden_shape[1] <= value.shape[1] < golden_shape[1] + block)


def _unblocked(value: Array, block: int, golden_shape: Sequence[int]) -> Array:
    batch, channels, *space = value.shape
    blocks = value.reshape(batch, channels // block, *space, block)
    plain = np.moveaxis(blocks, -1, 2).reshape(batch, channels, *space)
    return plain[:, : golden_shape[1]]
