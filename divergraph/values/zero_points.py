"""int8 against uint8: optimisers move the zero point of quantised tensors by 128, and some dumps
label the bytes of int8 as uint8."""

from __future__ import annotations

import numpy as np

from divergraph.values.array_types import Array

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_BLOCK = 1 << 13
_BLOCKS = 64
"""Blocks of elements that decide, evenly spaced: a part of a large tensor is proof enough."""


def is_8_bit(value: Array) -> bool:
    """Whether *value* is of int8 or uint8."""
    return value.dtype in _BYTES


def may_move(device: np.dtype, golden: np.dtype) -> bool:
    """Whether one side is int8 and the other uint8."""
    return device in _BYTES and golden in _BYTES and device != golden


def moved_by_128(value: Array) -> Array:
    """*value* (int8 or uint8) as the other type, with the zero point moved by 128."""
    bits = value.view(np.uint8) ^ np.uint8(128)
    return bits.view(_other(value.dtype))


def same_bytes(value: Array) -> Array:
    """The bytes of *value* (int8 or uint8) read as the other type."""
    return value.view(_other(value.dtype))


def _as_they_are(value: Array) -> Array:
    return value


FORMS = (moved_by_128, same_bytes, _as_they_are)
"""The ways to read 8-bit numbers of the other type, the likeliest first."""


def with_zero_of(value: Array, golden: Array) -> Array:
    """*value* in the 8-bit type of *golden*, by the one of :data:`FORMS` that comes nearest to
    *golden*. *value* itself unless one is int8 and the other uint8, of one size."""
    if not may_move(value.dtype, golden.dtype) or value.size != golden.size:
        return value
    here, there = value.reshape(-1), golden.reshape(-1)
    distances = [0] * len(FORMS)
    for start in range(0, value.size, max(_BLOCK, value.size // _BLOCKS)):
        block = here[start : start + _BLOCK]
        golden_part = there[start : start + _BLOCK].astype(np.int16)
        for number, form in enumerate(FORMS):
            distances[number] += int(np.abs(form(block) - golden_part).sum(dtype=np.int64))
    return FORMS[distances.index(min(distances))](value)


def _other(dtype: np.dtype) -> np.dtype:
    return _BYTES[1] if dtype == _BYTES[0] else _BYTES[0]
