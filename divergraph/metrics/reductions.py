"""Dot products and sums of float64 blocks that never start BLAS threads.

OpenBLAS starts threads for dot products of more than 10,000 elements; they spin and starve
other workers. So a block is a stack of rows of :data:`ROW` elements, multiplied row by row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from divergraph.values.array_types import Float64

ROW = 8192
"""Elements of one BLAS call; blocks are whole multiples of it."""


_ONES = np.ones(ROW)
_ONES.flags.writeable = False


def dot(first: Float64, right: Float64) -> float:
    """Sum of products of two contiguous arrays of one length."""
    count = len(first)
    if count <= ROW:
        return float(first.dot(right))
    even = count - count % ROW
    rows = row_products(first[:even].reshape(-1, ROW), right[:even].reshape(-1, ROW))
    result = float(np.add.reduce(rows))
    return result + float(first[even:].dot(right[even:])) if even < count else result


def summed(values: Float64) -> float:
    """Sum of a contiguous array."""
    count = len(values)
    if count <= ROW:
        return float(values.dot(_ONES[:count]))
    return float(np.add.reduce(values))


def _loop(firsts: Float64, right: Float64) -> Float64:
    """``numpy.vecdot`` for numpy before 2.0."""
    return np.array([row.dot(other) for row, other in zip(firsts, right, strict=True)])


row_products: Callable[[Float64, Float64], Float64] = getattr(np, "vecdot", _loop)
