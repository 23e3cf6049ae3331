"""Weights packed into few bits, with a scale for each block of them (``MatMulNBits``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import Op

PACKED = "MatMulNBits"
_SCALES, _ZEROS = 2, 3
_BYTE = 8


def block_scales(
    op: Op, value: Callable[[Op, int], Array | None]
) -> tuple[Array, Array, int, int] | None:
    """(scales, zero points, block size, bits) of the weight of *op*, which has shape (K, N).

    Scales (float32) and zero points have shape (blocks, N); a block is that many elements along K.
    *value* gives a constant operand by its position. None if the scales are not known.
    """
    bits, block, rows, columns = (
        _whole(op, name, usual)
        for name, usual in (("bits", 4), ("block_size", 0), ("K", 0), ("N", 0))
    )
    scales = value(op, _SCALES)
    if scales is None or block < 1 or columns < 1 or bits not in (2, 4, _BYTE):
        return None
    blocks = -(-rows // block)
    if scales.size != blocks * columns:
        return None
    zeros = value(op, _ZEROS)
    if zeros is None:
        zeros = np.full((columns, blocks), 1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks]
    scale = scales.reshape(columns, blocks).astype(np.float32)
    return scale.T, zeros.reshape(columns, blocks).T, block, bits


def _whole(op: Op, name: str, usual: int) -> int:
    value = op.attrs.get(name, usual)
    return value if isinstance(value, int) else usual


def _unpacked(rows: Array, bits: int) -> Array:
    """The values packed in each row of bytes (uint8), the lowest bits first."""
    shifts = np.arange(0, _BYTE, bits, dtype=np.uint8)
    numbers: Array = (rows[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(len(rows), -1)
