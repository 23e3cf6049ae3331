"""The two kinds of value grids that formats are made of: short floats and short integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Grid
from divergraph.rootcause.devices.mantissa import short

_MANTISSA = 23
"""Stored bits of a float32 mantissa."""


def to_step(
    value: Array, exponents: Array, bits: Array | int, *, ties_to_zero: bool = False
) -> Array:
    """*value* as multiples of 2^(exponents - bits), nearest, ties to even or to 0."""
    steps = np.ldexp(np.float32(1), exponents - bits)
    counted = value / steps
    if ties_to_zero:
        counted = np.copysign(np.ceil(np.abs(counted) - np.float32(0.5)), counted)
    rounded: Array = np.rint(counted) * steps
    return rounded


def binade(value: Array) -> Array:
    """The exponent of each element: 2^exponent <= |value| < 2^(exponent + 1); int32."""
    exponents: Array = np.frexp(value)[1] - 1
    return exponents


@dataclass(frozen=True)
class FloatGrid(Grid):
    """A short float with ``bits`` of mantissa; below 2^``least`` its numbers are evenly spaced.
    Ties go to the even number, or ``ties_to_zero``."""

    name: str
    bits: int
    least: int
    largest: float
    ties_to_zero: bool = False
    variant_of: str = ""

    def rounded(self, value: Array) -> Array:
        """*value* rounded to nearest, saturated."""
        exponents = np.maximum(binade(value), self.least)
        rounded = to_step(value, exponents, self.bits, ties_to_zero=self.ties_to_zero)
        saturated: Array = np.clip(rounded, -self.largest, self.largest)
        return saturated


@dataclass(frozen=True)
class IntegerGrid(Grid):
    """Whole numbers from -``largest`` to ``largest``."""

    name: str
    bits: int
    integers = True

    @property
    def largest(self) -> float:  # type: ignore[override]  # follows from the bits
        """Both ends are alike: the lowest integer is not used."""
        return float((1 << (self.bits - 1)) - 1)

    def rounded(self, value: Array) -> Array:
        """*value* rounded to nearest even, saturated."""
        rounded: Array = np.clip(np.rint(value), -self.largest, self.largest)
        return rounded


@dataclass(frozen=True)
class ShortMantissa(Grid):
    """float32 with ``bits`` of mantissa, the others rounded or ``cut`` off: no scale is needed."""

    name: str
    bits: int
    cut: bool = False

    def rounded(self, value: Array) -> Array:
        """*value* with fewer bits."""
        lost = _MANTISSA - self.bits
        if not self.cut:
            return short(value, lost)
        raw = np.ascontiguousarray(value).view(np.uint32) >> np.uint32(lost) << np.uint32(lost)
        return raw.view(np.float32).reshape(value.shape)
