"""Random errors of healthy arithmetic, drawn once and used over and over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.precision import Precision
from divergraph.rootcause.tolerances.masks import stands_for_infinity

_NUMBERS = 1 << 17
"""Random numbers that are drawn: drawing them costs more than the ops."""


def generator() -> np.random.Generator:
    """A generator that draws the same in each run."""
    return np.random.default_rng(20_26)


@cache
def _first_draw() -> tuple[Mapping[str, Any], Array, Mapping[str, Any]]:
    """The numbers that a new generator draws, with its states before and after."""
    draws = generator()
    begin, numbers = draws.bit_generator.state, draws.uniform(-1.0, 1.0, _NUMBERS)
    numbers.flags.writeable = False
    return begin, numbers, draws.bit_generator.state


class DrawnNoise:
    """Noise of any shape and size, from numbers drawn of a generator."""

    def __init__(self, draws: np.random.Generator) -> None:
        self._draws = draws
        begin, numbers, end = _first_draw()
        if draws.bit_generator.state == begin:  # thousands begin alike in a search
            self._numbers, draws.bit_generator.state = numbers, end
        else:
            self._numbers = draws.uniform(-1.0, 1.0, _NUMBERS)

    def _some(self) -> Array:
        """The numbers from a random place on."""
        return self._numbers[int(self._draws.integers(_NUMBERS // 2)) :]

    def times(self, value: Array, size: float) -> Array:
        """*value* with each element off by a random relative error of up to *size*."""
        if value.dtype.kind != "f":
            return value
        numbers = self._some()[: value.size]  # most tensors are smaller than what was drawn
        factors = np.resize((1.0 + size * numbers).astype(np.float32), value.shape)
        if (there := stands_for_infinity(value)) is not None:
            factors[there] = 1.0
        with np.errstate(all="ignore"):
            return np.asarray(value * factors, value.dtype)

    def lossy(self, value: Array, size: float) -> Array:
        """*value* with noise of the relative *size* in the whole tensor, more in rows that are
        larger."""
        if value.dtype.kind != "f" or not value.size:
            return value
        squares = np.square(value, dtype=np.float64)
        scale = np.sqrt(np.maximum(squares.mean(axis=-1, keepdims=True), squares.mean()))
        noise = np.resize(self._some(), value.shape)
        # Uniform numbers up to 1 have a root mean square of 1/sqrt(3).
        return np.asarray(value + size * math.sqrt(3.0) * scale * noise, value.dtype)

    def approximated(self, value: Array, size: float) -> Array:
        """*value* as an approximation that is off by up to *size* may give it: polynomials and
        tables are as good as that next to 1, not next to 0, where Erf or Sigmoid have their tails.
        """
        noisy = self.times(value, size)
        if value.dtype.kind != "f" or not value.size:
            return noisy
        with np.errstate(all="ignore"):
            largest = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
            one = np.full(value.shape, min(largest, 1.0), value.dtype)
            return np.where(np.abs(value) < one, value + (self.times(one, size) - one), noisy)

    def unrounded(self, value: Array, precision: Precision) -> Array:
        """A random float32 array that may have become *value* by rounding to *precision*."""
        value = np.asarray(value, np.float32)
        noisy = self.times(value, precision.unit)
        normal = np.float32(precision.smallest_normal)
        small = (value != 0) & (np.abs(value) < normal)
        if not small.any():
            return noisy
        # Subnormal numbers are spaced as the smallest normal ones are, not by their own size.
        factors = np.divide(normal, np.abs(value), where=small, out=np.ones_like(value))
        with np.errstate(invalid="ignore"):  # infinities are no small numbers
            return np.where(small, value + (noisy - value) * factors, noisy)
