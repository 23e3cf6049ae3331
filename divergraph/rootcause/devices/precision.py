"""The arithmetic a device computes in: found from its dumps, and imitated by rounding."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from graphstore.model import DType

_LOOKED_AT = 4096
_BLOCK = 1 << 16


class Precision(StrEnum):
    """An arithmetic; the value is the word of ``--precision`` and of the analysis."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"

    @property
    def unit(self) -> float:
        """Largest relative error of one rounding (of int8: of the fp32 around it)."""
        return _UNIT[self]


_UNIT = {
    Precision.FP32: 2.0**-24,
    Precision.FP16: 2.0**-11,
    Precision.BF16: 2.0**-8,
    Precision.INT8: 2.0**-24,
}


def rounded(value: Array, precision: Precision) -> Array:
    """*value* (float) with the mantissa of *precision*, as float32 or what it was.

    fp16 has its subnormals, but not its upper bound: an overflow is no rounding.
    """
    if value.dtype.kind != "f" or precision in (Precision.FP32, Precision.INT8):
        return value
    if precision is Precision.FP16 and value.dtype == np.float16:
        return value
    if value.size <= _BLOCK:
        return _rounded(value, precision)
    # Block by block: on the way there are several times as many bytes.
    flat = np.ascontiguousarray(value).reshape(-1)
    found = np.empty_like(flat)
    for start in range(0, flat.size, _BLOCK):
        found[start : start + _BLOCK] = _rounded(flat[start : start + _BLOCK], precision)
    return found.reshape(value.shape)


def _rounded(value: Array, precision: Precision) -> Array:
    wide = np.asarray(value, np.float32)
    found = short(wide, 16 if precision is Precision.BF16 else 13)
    if precision is Precision.FP16:
        small = np.abs(wide) < 2.0**-14
        if small.any():
            found[small] = wide[small].astype(np.float16)
    if value.dtype != np.float16:
        return found.astype(value.dtype, copy=False)
    with np.errstate(over="ignore"):  # the largest float16 would be more as a bfloat16
        narrow = found.astype(np.float16)
    return np.where(np.isfinite(narrow), narrow, value)


def short(wide: Array, bits: int) -> Array:
    """float32 without its last *bits* of mantissa, rounded to nearest even, never to Inf."""
    raw = np.ascontiguousarray(wide).view(np.uint32).reshape(wide.shape)
    kept = np.right_shift(raw, np.uint32(bits), out=np.empty_like(raw))
    kept &= np.uint32(1)  # in place from here on: temporaries cost more than sums
    kept += raw
    kept += np.uint32((1 << (bits - 1)) - 1)
    kept &= np.uint32((1 << 32) - (1 << bits))
    found = kept.view(np.float32)
    finite = np.isfinite(found) & np.isfinite(wide)
    # NaN may lose what makes it one; and what rounds up to infinity is no rounding.
    return found if finite.all() else np.where(finite, found, wide)


def precision_of(value: Array, dtype: DType | None) -> Precision | None:
    """The precision the values of a device tensor are in; None if they do not tell.

    A float32 dump may hold values that were rounded to 16 bits before.
    """
    if dtype is DType.FLOAT16:
        return Precision.FP16
    if dtype is DType.BFLOAT16:
        return Precision.BF16
    if value.dtype.kind != "f":
        return None
    flat = value.reshape(-1)
    sample = flat[:: max(1, flat.size // _LOOKED_AT)]
    sample = sample[np.isfinite(sample) & (sample != 0)]
    if np.unique(sample).size < calibration.PRECISION_VALUES or np.array_equal(
        np.rint(sample), sample
    ):
        return None  # whole numbers fit 16 bits whatever computed them
    for precision in (Precision.BF16, Precision.FP16):
        if np.array_equal(rounded(sample, precision), sample):
            return precision
    return Precision.FP32


def fits_half(value: Array) -> bool:
    """Whether converters to fp16 leave *value* (float) as it is but for rounding."""
    sizes = np.abs(value[value != 0])
    return bool(
        np.all((sizes <= calibration.KEPT_LARGEST) & (sizes >= calibration.CONVERTED_LEAST))
    )
