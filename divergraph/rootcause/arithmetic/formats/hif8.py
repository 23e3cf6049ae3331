"""HiF8, the tapered 8 bits of Ascend: the further from 1, the fewer bits of mantissa.

Three bits where the exponent is within 3 of 0, two within 7, one within 15; below 2^-15 only powers
of two, down to 2^-22. Ties are rounded away from zero.

Source: "Ascend HiFloat8 Format for Deep Learning" (Luo and others, 2024).
"""

from __future__ import annotations

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Grid
from divergraph.rootcause.arithmetic.grids import binade

_LEAST = -22


class HiFloat8(Grid):
    """HiF8, up to 2^15; as its range is wide it is also read without a scale."""

    name = "hif8"
    bits = 3
    largest = 2.0**15

    def rounded(self, value: Array) -> Array:
        """*value* rounded to nearest, ties away from zero, saturated."""
        exponents = np.maximum(binade(value), _LEAST)
        bits = 3 - np.searchsorted([3, 7, 15], np.abs(exponents), side="left")
        bits = np.where(exponents <= -16, 0, bits)
        steps = np.ldexp(np.float32(1), exponents - bits)
        rounded = np.copysign(np.floor(np.abs(value) / steps + np.float32(0.5)) * steps, value)
        saturated: Array = np.clip(rounded, -self.largest, self.largest)
        return saturated


ARITHMETIC = HiFloat8()
