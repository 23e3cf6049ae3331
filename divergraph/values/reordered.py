"""Two dumped tensors that hold the same values, each in an order of its own."""

from __future__ import annotations

import numpy as np

from divergraph.values.one_tensor import read_tensor
from divergraph.values.unread import Unread
from graphstore.model import DumpTensorRef


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
