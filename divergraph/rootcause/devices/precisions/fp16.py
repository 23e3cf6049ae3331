"""float16: 11 bits of significand, few exponents. Reason: the usual type of Ascend's cube unit.

Source: IEEE 754 binary16. Subnormals are emulated, overflow is not.
"""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause import calibration
from divergraph.rootcause.devices.mantissa import in_blocks, in_type_of, short
from divergraph.rootcause.devices.precision import Precision
from graphstore.model import DType

_DROPPED = 13
"""Bits of a float32 mantissa (23) that float16 does not have."""


class Half(Precision):
    """float16. Devices may flush its subnormals, and converters raise tiny constants."""

    name = "fp16"
    unit = 2.0**-11
    smallest_normal = 2.0**-14
    largest = 65504.0
    dtype = DType.FLOAT16
    coarseness = 1

    @property
    def least_kept(self) -> float:  # type: ignore[override]  # read when needed, as all numbers
        """The size converters raise tiny weights to; subnormals are spaced by half of it."""
        return calibration.CONVERTED_LEAST

    def rounded(self, value: Array) -> Array:
        """*value* rounded to 11 bits, below 2^-14 to a multiple of 2^-24."""
        if value.dtype.kind != "f" or value.dtype == np.float16:
            return value
        return in_blocks(value, _rounded)


def _rounded(value: Array) -> Array:
    wide = np.asarray(value, np.float32)
    rounded = short(wide, _DROPPED)
    small = np.abs(wide) < Half.smallest_normal
    if small.any():  # subnormals have fewer bits, which only the type itself rounds to
        rounded[small] = wide[small].astype(np.float16)
    return in_type_of(rounded, value)


PRECISION = FP16 = Half()
