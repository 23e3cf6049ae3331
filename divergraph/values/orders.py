"""The order of values: a device tensor's changed into golden's, or another than a tensor's."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.values.array_types import Array
from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.model import DumpTensorRef, Reorder


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


def is_reordered(one: DumpTensorRef, other: DumpTensorRef) -> bool:
    """Whether both hold the same values, in another order; false where a dump has no values."""
    if one.statistics is not None or other.statistics is not None or one.shape != other.shape:
        return False
    values, others = read_tensor(one), read_tensor(other)
    if isinstance(values, Unread) or isinstance(others, Unread):
        return False
    flat, flat_other = (np.asarray(each, np.float64).reshape(-1) for each in (values, others))
    if np.array_equal(flat, flat_other, equal_nan=True):
        return False
    return np.array_equal(np.sort(flat), np.sort(flat_other), equal_nan=True)
