"""Floats rounded to fewer bits of mantissa: to nearest, ties to even."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from divergraph.execute.contract import Array

_BLOCK = 1 << 16


def in_blocks(value: Array, rounded: Callable[[Array], Array]) -> Array:
    """``rounded(value)``, computed block by block: rounding takes several times the memory."""
    if value.size <= _BLOCK:
        return rounded(value)
    flat = np.ascontiguousarray(value).reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        result[start : start + _BLOCK] = rounded(flat[start : start + _BLOCK])
    return result.reshape(value.shape)


def in_type_of(found: Array, value: Array) -> Array:
    """*found* (float32) in the dtype of *value*; elements that overflow float16 stay as in
    *value*."""
    if value.dtype != np.float16:
        return found.astype(value.dtype, copy=False)
    with np.errstate(over="ignore"):  # the largest float16 rounds up to 65536 in bfloat16
        narrow = found.astype(np.float16)
    return np.where(np.isfinite(narrow), narrow, value)


def short(wide: Array, bits: int) -> Array:
    """float32 values without the last *bits* of mantissa, rounded to nearest even, never to Inf."""
    raw = np.ascontiguousarray(wide).view(np.uint32).reshape(wide.shape)
    cut = np.right_shift(raw, np.uint32(bits), out=np.empty_like(raw))
    cut &= np.uint32(1)  # in place from here on: temporaries cost more than the arithmetic
    cut += raw
    cut += np.uint32((1 << (bits - 1)) - 1)
    cut &= np.uint32((1 << 32) - (1 << bits))
    shortened = cut.view(np.float32)
    finite = np.isfinite(shortened) & np.isfinite(wide)
    # A NaN may lose the bits that make it one, and rounding up to infinity would be an overflow.
    return shortened if finite.all() else np.where(finite, shortened, wide)
