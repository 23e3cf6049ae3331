"""Stored bytes turned into numpy arrays, also for types numpy does not have.

Small floats are decoded to float32 through tables built from their definition:
E5M2 and E4M3FN of the OCP 8-bit specification (and the FNUZ forms ONNX names), E8M0 and
E2M1 of the OCP microscaling specification, HiFloat8 of arXiv 2409.16626. Elements
smaller than a byte are packed from the low bits up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from graphstore.model import DType

Bytes = NDArray[np.uint8]
Decoder = Callable[[Bytes, int], NDArray[np.generic]]
Values = Callable[[], NDArray[np.generic]]


def can_decode(dtype: DType) -> bool:
    """True if :func:`decode` knows the type."""
    return dtype.numpy is not None or dtype in _DECODERS


def stored_bytes(dtype: DType, elements: int) -> int:
    """The bytes *elements* of the type take, packed types rounded up to whole bytes."""
    bits = dtype.bits
    if bits is None:
        raise ValueError(f"elements of {dtype} have no fixed size")
    return (elements * bits + 7) // 8


def decode(raw: Bytes, dtype: DType, elements: int) -> NDArray[np.generic]:
    """The first *elements* elements of *raw*, 1-D.

    A view of *raw* where numpy has the type (bool excepted if a byte is neither 0 nor
    1); float32 for small floats, int8/uint8 for packed integers, complex64 for
    complex32. ``ValueError`` for a type :func:`can_decode` denies.
    """
    raw = raw[: stored_bytes(dtype, elements)]
    if dtype is DType.BOOL:
        return raw.view(np.bool_) if not raw.size or raw.max() <= 1 else raw != 0
    if (known := dtype.numpy) is not None:
        return raw.view(known)
    decoder = _DECODERS.get(dtype)
    if decoder is None:
        raise ValueError(f"elements of {dtype} cannot be decoded")
    return decoder(raw, elements)


def _bfloat16(raw: Bytes, _elements: int) -> NDArray[np.generic]:
    widened = raw.view("<u2").astype("<u4")
    widened <<= 16
    return widened.view("<f4")


def _complex32(raw: Bytes, _elements: int) -> NDArray[np.generic]:
    return raw.view("<f2").astype(np.float32).view(np.complex64)


def _table(values: Values) -> Decoder:
    def look_up(raw: Bytes, _elements: int) -> NDArray[np.generic]:
        return values()[raw]

    return look_up


def _packed(bits: int, values: Values) -> Decoder:
    def look_up(raw: Bytes, elements: int) -> NDArray[np.generic]:
        mask = np.uint8((1 << bits) - 1)
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        codes: Bytes = (raw[:, None] >> shifts) & mask
        return values()[codes.reshape(-1)[:elements]]

    return look_up


def _integers(bits: int, *, signed: bool) -> Values:
    @cache
    def values() -> NDArray[np.generic]:
        codes = np.arange(1 << bits)
        if not signed:
            return codes.astype(np.uint8)
        return np.where(codes < 1 << (bits - 1), codes, codes - (1 << bits)).astype(np.int8)

    return values


def _small_float(
    exponent_bits: int, mantissa_bits: int, bias: int, special: Callable[[int, int], float | None]
) -> Values:
    """A table of sign, exponent, mantissa floats; *special* names inf and nan codes."""

    @cache
    def values() -> NDArray[np.generic]:
        top = 1 << (exponent_bits + mantissa_bits)
        table = []
        for code in range(2 * top):
            sign = -1.0 if code & top else 1.0
            exponent, mantissa = divmod(code % top, 1 << mantissa_bits)
            extra = special(code, exponent)
            if extra is not None:
                table.append(sign * extra)
                continue
            fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
            table.append(sign * fraction * 2.0 ** (max(exponent, 1) - bias))
        return np.array(table, np.float32)

    return values


def _e5m2_special(code: int, exponent: int) -> float | None:
    if exponent != 31:
        return None
    return nan if code & 3 else inf


def _e4m3fn_special(code: int, _exponent: int) -> float | None:
    return nan if code & 0x7F == 0x7F else None


def _fnuz_special(code: int, _exponent: int) -> float | None:
    return nan if code == 0x80 else None


def _no_special(_code: int, _exponent: int) -> float | None:
    return None


@cache
def _e8m0() -> NDArray[np.float32]:
    powers = [2.0 ** (code - 127) for code in range(255)]
    return np.array([*powers, nan], np.float32)


@cache
def _hifloat8() -> NDArray[np.float32]:
    return np.array([_hifloat8_value(code) for code in range(256)], np.float32)


# Width of the exponent, bits of the prefix, the prefix.
_HIFLOAT8_PREFIXES = ((4, 2, 3), (3, 2, 2), (2, 2, 1), (1, 3, 1), (0, 4, 1))


def _hifloat8_value(code: int) -> float:
    """One HiFloat8: sign, a prefix code for the exponent's width, exponent, mantissa."""
    sign = -1.0 if code & 0x80 else 1.0
    low = code & 0x7F
    if code == 0x80:
        return nan
    if low == 0x6F:
        return sign * inf
    if low < 8:  # prefix 0000: denormal, a power of two or zero
        return sign * 2.0 ** (low - 23) if low else 0.0
    width, prefix_bits = next(
        (width, bits) for width, bits, prefix in _HIFLOAT8_PREFIXES if low >> (7 - bits) == prefix
    )
    mantissa_bits = 7 - prefix_bits - width
    mantissa = low & ((1 << mantissa_bits) - 1)
    field = (low >> mantissa_bits) & ((1 << width) - 1)
    exponent = 0
    if width:  # sign and magnitude, the magnitude's leading 1 not stored
        half = 1 << (width - 1)
        exponent = half + field % half
        exponent = -exponent if field >= half else exponent
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0**exponent


_DECODERS: dict[DType, Decoder] = {
    DType.BFLOAT16: _bfloat16,
    DType.COMPLEX32: _complex32,
    DType.FLOAT8_E5M2: _table(_small_float(5, 2, 15, _e5m2_special)),
    DType.FLOAT8_E4M3FN: _table(_small_float(4, 3, 7, _e4m3fn_special)),
    DType.FLOAT8_E5M2FNUZ: _table(_small_float(5, 2, 16, _fnuz_special)),
    DType.FLOAT8_E4M3FNUZ: _table(_small_float(4, 3, 8, _fnuz_special)),
    DType.FLOAT8_E8M0: _table(_e8m0),
    DType.HIFLOAT8: _table(_hifloat8),
    DType.FLOAT4_E2M1: _packed(4, _small_float(2, 1, 1, _no_special)),
    DType.FLOAT4_E1M2: _packed(4, _small_float(1, 2, 1, _no_special)),
    DType.INT4: _packed(4, _integers(4, signed=True)),
    DType.UINT4: _packed(4, _integers(4, signed=False)),
    DType.INT2: _packed(2, _integers(2, signed=True)),
    DType.UINT2: _packed(2, _integers(2, signed=False)),
    DType.UINT1: _packed(1, _integers(1, signed=False)),
}
