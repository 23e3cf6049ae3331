"""Random values that are exact in the element type the ops are dumped in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from divergraph.values.array_types import Array


@dataclass
class Draws:
    """Draws values of element type *kind*; all are given as float64, without a rounding."""

    kind: np.dtype
    _source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def __call__(self, *shape: int) -> Array:
        """Normally distributed values."""
        return self.held(self._source.normal(size=shape))

    def positive(self, *shape: int) -> Array:
        """Values above 0.25."""
        return self.held(0.25 + np.abs(self(*shape)))

    def unit(self, *shape: int) -> Array:
        """Values between -0.9 and 0.9."""
        return self.held(0.9 * np.tanh(self(*shape)))

    def whole(self, *shape: int, least: int = -20, most: int = 20) -> Array:
        """Integers (int32)."""
        return self._source.integers(least, most, shape, np.int32)

    def held(self, value: Array | float) -> Array:
        """*value* as the device holds it."""
        return np.asarray(value).astype(self.kind).astype(np.float64)
