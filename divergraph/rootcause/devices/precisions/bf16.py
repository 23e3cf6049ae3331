"""bfloat16: the exponents of float32 with 8 bits of mantissa. Source: any float32's upper half."""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.mantissa import in_blocks, in_type_of, short
from divergraph.rootcause.devices.precision import Precision
from graphstore.model import DType

_DROPPED = 16
"""Bits of a float32 mantissa (23) that bfloat16 does not have."""


class Brain(Precision):
    """bfloat16, tried before float16: most of its numbers are float16 numbers, too."""

    name = "bf16"
    unit = 2.0**-8
    dtype = DType.BFLOAT16
    coarseness = 2

    def rounded(self, value: Array) -> Array:
        """*value* rounded to 8 bits of significand, to nearest even."""
        return in_blocks(value, _rounded) if value.dtype.kind == "f" else value


def _rounded(value: Array) -> Array:
    return in_type_of(short(np.asarray(value, np.float32), _DROPPED), value)


PRECISION = BF16 = Brain()
