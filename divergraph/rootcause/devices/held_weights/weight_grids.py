"""How a device may hold a weight that its graph gives as floats: in fewer bits, as converters do.

None of it is told by the graph, and none needs to be: scales follow from the weight itself, as all
converters take them from its range. They differ in what shares a scale and in where the grid lies.
What is folded into a weight multiplies each output channel by a number before it is rounded: a grid
by output channel is moved along with it, others are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.devices.quantisers import Quantiser

_ONE = np.ones(())
_NOTHING = 1e-6
"""Scales up to this are taken for 0 by some converters (MNN)."""


class Lies(StrEnum):
    """Where the integers of a grid lie."""

    SYMMETRIC = "around 0, up to the largest"
    FROM_LEAST = "from the least value to the largest"
    WITH_ZERO = "from the least value to the largest, with 0 on the grid"


class ScaleSharing(StrEnum):
    """The values of a weight that have one scale."""

    CHANNEL = "output channel"
    INPUT = "input channel"
    PIECE = "piece of memory, of which there are as many as output channels"
    TENSOR = "tensor"
    BLOCK_32 = "block of 32"
    BLOCK_64 = "block of 64"
    BLOCK_128 = "block of 128"

    @property
    def block(self) -> int:
        """The input channels that share a scale; 0 for no blocks."""
        return int(self.rpartition(" ")[2]) if self.startswith("block") else 0


@dataclass(frozen=True, slots=True)
class WeightGrid:
    """A way to hold weights in integers of so many ``bits``."""

    bits: int
    shared: ScaleSharing
    lies: Lies

    def __str__(self) -> str:
        return f"{self.bits} bits with a scale for each {self.shared.value}"

    def fits(self, shape: tuple[int, ...], axes: tuple[int, int]) -> bool:
        """Whether a weight whose output and input channels are along *axes* can be held so."""
        block = self.shared.block
        if self.shared is ScaleSharing.PIECE:  # a channel that lies first is a piece of memory
            return len(shape) > len(axes) and axes[0] % len(shape) != 0
        return not block or (shape[axes[1]] > block and shape[axes[1]] % block == 0)

    def quantiser(self, axes: tuple[int, int], factor: Array = _ONE) -> HeldWeight:
        """The quantiser of a weight with output and input channels along *axes*, into which a
        *factor* was folded, an array that fits its shape."""
        high = (1 << (self.bits - 1)) - 1
        return HeldWeight(_ONE, 0 * _ONE, -high - 1, high, grid=self, axes=axes, factor=factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldWeight(Quantiser):
    """Rounds a weight to a ``grid`` whose scales are those of its own values, times ``factor``."""

    grid: WeightGrid
    axes: tuple[int, int]
    factor: Array

    def __call__(self, value: Array, moved: float = 0.0) -> Array:
        """*value* (float) quantised and dequantised, in its dtype, after it was *moved*. A scale
        that is next to nothing is then taken for 0, as some converters do: all values that share
        it are one."""
        out, inner = (axis % value.ndim for axis in self.axes)
        others = tuple(n for n in range(value.ndim) if n not in (out, inner))
        order = (out, inner, *others)
        if self.grid.shared is ScaleSharing.INPUT:
            order = (inner, out, *others)
        elif self.grid.shared is ScaleSharing.PIECE:
            order = tuple(range(value.ndim))
        rows = np.transpose(np.asarray(value, np.float64) * self.factor, order)
        turned = rows.shape
        block = self.grid.shared.block
        if self.grid.shared is ScaleSharing.TENSOR:
            rows = rows.reshape(1, -1)
        elif self.grid.shared is ScaleSharing.PIECE:
            rows = rows.reshape(value.shape[out], -1)
        elif block and turned[1] % block == 0:
            rows = rows.reshape(turned[0] * (turned[1] // block), -1)
        else:
            rows = rows.reshape(turned[0], -1)
        rounded = np.transpose(self._rounded(rows, moved).reshape(turned), np.argsort(order))
        with np.errstate(all="ignore"):
            rounded = rounded / self.factor
        return np.asarray(np.where(np.isfinite(rounded), rounded, value), value.dtype)

    def _rounded(self, rows: Array, moved: float) -> Array:
        smallest, largest = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
        steps = (1 << self.grid.bits) - 1
        start: Array = np.zeros_like(smallest)
        match self.grid.lies:
            case Lies.SYMMETRIC:
                scale = np.maximum(largest, -smallest) / (steps // 2)
            case Lies.FROM_LEAST:
                scale, start = (largest - smallest) / steps, smallest
            case Lies.WITH_ZERO:
                scale = (np.maximum(largest, 0.0) - np.minimum(smallest, 0.0)) / steps
        nothing = scale <= (_NOTHING if moved else 0.0)
        scale = np.where(scale > 0.0, scale, 1.0)
        place = moved * 2.0**-24 * steps
        stepped: Array = np.rint((rows - start) / scale + place) * scale + start
        return np.where(nothing, start, stepped)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldHalf(Quantiser):
    """Rounds a constant to float16, or has its last digits ``cut`` off, after it was multiplied by
    ``factor`` and ``added`` to, arrays that fit its shape: what was folded into it. Of what is
    divided by, the ``inverse`` may be held."""

    factor: Array
    added: Array
    cut: bool
    inverse: bool = False

    def __call__(self, value: Array, moved: float = 0.0) -> Array:
        """*value* (float) rounded, in its dtype, after it was *moved* by so many units of its last
        place in float32: what is folded in was multiplied in that."""
        with np.errstate(all="ignore"):
            folded = np.asarray(value, np.float64) * self.factor + self.added
            folded = (1.0 / folded if self.inverse else folded) * (1.0 + moved * 2.0**-24)
            half = folded.astype(np.float16)
            if self.cut:
                beyond = np.abs(np.asarray(half, np.float64)) > np.abs(folded)
                half = np.where(beyond, np.nextafter(half, np.float16(0)), half)
            wide = np.asarray(half, np.float64)
            unscaled = ((1.0 / wide if self.inverse else wide) - self.added) / self.factor
        return np.asarray(np.where(np.isfinite(unscaled), unscaled, value), value.dtype)


def half(
    cut: bool, factor: Array = _ONE, added: Array = 0 * _ONE, *, inverse: bool = False
) -> HeldHalf:
    """The quantiser of a constant that is held in float16, with what was folded into it."""
    return HeldHalf(_ONE, 0 * _ONE, 0, 0, factor=factor, added=added, cut=cut, inverse=inverse)


def along(values: Array, axis: int, ndim: int) -> Array:
    """*values* along *axis* of an array of *ndim* axes."""
    return values.reshape([-1 if n == axis % ndim else 1 for n in range(ndim)])


GRIDS: tuple[WeightGrid, ...] = tuple(
    WeightGrid(bits, shared, lies) for bits in (8, 4) for shared in ScaleSharing for lies in Lies
)
"""All that converters are known to do, the usual ones first."""
