"""Stored bytes turned into numpy arrays, also for types numpy does not have.

Small floats are decoded to float32 through tables, those of ml_dtypes where it has the type;
HiFloat8 is that of arXiv 2409.16626. Elements smaller than a byte are packed from the low
bits up; single bits from the high ones down, as ``numpy.unpackbits`` (and so msaccucmp)
takes them.
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
    if (numpy_type := dtype.numpy) is not None:
        return raw.view(numpy_type)
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


def _byte(values: Values) -> Decoder:
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


def _table(name: str, kind: type[np.generic] = np.float32) -> Values:
    """What each code of the type that ml_dtypes calls *name* stands for, as *kind*."""

    @cache
    def values() -> NDArray[np.generic]:
        import ml_dtypes  # plain dumps need not load it

        codes = np.arange(256, dtype=np.uint8)
        decoded: NDArray[np.generic] = codes.view(getattr(ml_dtypes, name)).astype(kind)
        return decoded

    return values


def _bits(raw: Bytes, elements: int) -> NDArray[np.generic]:
    return np.unpackbits(raw, count=elements)


def _e1m2() -> NDArray[np.generic]:
    quarters = np.arange(8, dtype=np.float32) / 4
    return np.concatenate([quarters, -quarters])


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
    DType.FLOAT8_E5M2: _byte(_table("float8_e5m2")),
    DType.FLOAT8_E4M3FN: _byte(_table("float8_e4m3fn")),
    DType.FLOAT8_E5M2FNUZ: _byte(_table("float8_e5m2fnuz")),
    DType.FLOAT8_E4M3FNUZ: _byte(_table("float8_e4m3fnuz")),
    DType.FLOAT8_E8M0: _byte(_table("float8_e8m0fnu")),
    DType.HIFLOAT8: _byte(_hifloat8),
    DType.FLOAT4_E2M1: _packed(4, _table("float4_e2m1fn")),
    DType.FLOAT4_E1M2: _packed(4, _e1m2),
    DType.INT4: _packed(4, _table("int4", np.int8)),
    DType.UINT4: _packed(4, _table("uint4", np.uint8)),
    DType.INT2: _packed(2, _table("int2", np.int8)),
    DType.UINT2: _packed(2, _table("uint2", np.uint8)),
    DType.UINT1: _bits,
}
