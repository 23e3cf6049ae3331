"""Scales that follow from the largest of the values that share them.

Sources: the float8 kernels of PyTorch (tensor, rows), DeepSeek-V3's blocks of 1x128 and tiles of
128x128, OCP Microscaling Formats (blocks of 32 with a power of two), NVIDIA's NVFP4 (blocks of 16
with a scale in e4m3), GPTQ and AWQ (groups of integers from the least value on).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from divergraph.execute.contract import Array
from divergraph.rootcause.arithmetic.contract import Grid, Layout
from divergraph.rootcause.arithmetic.formats.e4m3 import ARITHMETIC as E4M3
from divergraph.rootcause.arithmetic.grids import binade
from divergraph.rootcause.devices.mantissa import short


class Shared(StrEnum):
    """The values with one scale, where it is not a block of them along the sum."""

    TENSOR = "tensor"
    ROW = "row"
    COLUMN = "column"


_WORDS = {
    Shared.TENSOR: "with a scale for the tensor",
    Shared.ROW: "with a scale for each row (token, output channel)",
    Shared.COLUMN: "with a scale for each column (input channel)",
}


class Scale(StrEnum):
    """What a scale is: any float, or one of few."""

    FLOAT = ""
    POWER = "power of two"
    POWER_UP = "power of two, up"
    BF16 = "held in bf16"
    FP16 = "held in fp16"
    E4M3 = "e4m3"
    E4M3_ALONE = "e4m3 alone"

    def held(self, scales: Array) -> Array:
        """*scales* (float32) rounded to the 16 bits that hold them, if any do."""
        match self:
            case Scale.BF16:
                return short(scales, 16)
            case Scale.FP16:
                return scales.astype(np.float16).astype(np.float32)
        return scales

    def of(self, largest: Array, grid: Grid) -> Array:
        """The scales (float32, 1 where all is 0) of values up to *largest* in size."""
        assert grid.largest is not None, "layouts with scales are for grids that end"
        usual = self.held(largest / np.float32(grid.largest))
        match self:
            case Scale.POWER:  # the largest value gets the largest exponent, and may saturate
                top = int(np.floor(np.log2(grid.largest)))
                usual = np.ldexp(np.float32(1), binade(largest) - top)
            case Scale.POWER_UP:  # nothing saturates
                usual = np.ldexp(np.float32(1), np.ceil(np.log2(usual)).astype(np.int32))
            case Scale.E4M3:  # relative to one float for the tensor, whose largest scale is 448
                top_scale = usual.max(initial=0.0) / np.float32(E4M3.largest)
                usual = E4M3.rounded(usual / top_scale) * top_scale
            case Scale.E4M3_ALONE:
                usual = E4M3.rounded(usual)
        scales: Array = np.where((largest > 0) & (usual > 0), usual, np.float32(1))
        return scales


_HELD = (Scale.BF16, Scale.FP16)
_KINDS = {
    Scale.FLOAT: "a scale",
    Scale.BF16: "a bfloat16 scale",
    Scale.FP16: "a float16 scale",
    Scale.POWER: "a power-of-two scale",
    Scale.POWER_UP: "a power-of-two scale",
    Scale.E4M3: "an e4m3 scale (and one for the tensor)",
    Scale.E4M3_ALONE: "an e4m3 scale",
}


@dataclass(frozen=True)
class SharedScale(Layout):
    """One scale for a tensor, row or column, or for a ``block`` of so many along the sum; a
    ``tile`` has as many along the other axis. ``from_least`` is for integers that reach from the
    least of the values to the largest."""

    shared: Shared = Shared.ROW
    block: int = 0
    scale: Scale = Scale.FLOAT
    tile: bool = False
    from_least: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]  # follows from its parts
        """``by 32, power of two``."""
        size = f"{self.block}x{self.block}" if self.tile else self.block or self.shared
        more = [", from the least"] if self.from_least else []
        more += [f", {self.scale}"] if self.scale else []
        return f"by {size}{''.join(more)}"

    @property
    def variant_of(self) -> str:  # type: ignore[override]  # follows from its parts
        """The layout with scales of float32, for those that hold them in 16 bits."""
        return replace(self, scale=Scale.FLOAT).name if self.scale in _HELD else ""

    @property
    def ties_often(self) -> bool:  # type: ignore[override]  # follows from its parts
        """Powers of two have no bits of mantissa, e4m3 has three."""
        return self.scale in (Scale.POWER, Scale.POWER_UP, Scale.E4M3_ALONE)

    @property
    def words(self) -> str:  # type: ignore[override]  # follows from its parts
        """``with a scale for each 128 along the sum``."""
        kind = _KINDS[self.scale]
        place = _WORDS[self.shared].removeprefix("with a scale for ")
        if self.block:
            place = f"each {self.block} along the sum"
        if self.tile:
            place = f"each tile of {self.block}x{self.block}"
        zero_text = " and a zero point" if self.from_least else ""
        return f"with {kind}{zero_text} for {place}"

    def fits(self, grid: Grid) -> bool:
        """Powers of two are for floats, the least value for integers."""
        if grid.largest is None:
            return False
        if grid.integers:
            return self.scale in (Scale.FLOAT, *_HELD)
        return not self.from_least

    def rounded(self, value: Array, axis: int, grid: Grid) -> Array:
        """See :meth:`Layout.rounded`; blocks at the end may be shorter."""
        rows = np.moveaxis(value, axis, -1)
        shape = rows.shape
        if not self.block:
            axes = {
                Shared.TENSOR: tuple(range(rows.ndim)),
                Shared.ROW: (-1,),
                Shared.COLUMN: tuple(range(rows.ndim - 1)),
            }
            rounded = self._scaled(rows, axes[self.shared], grid)
            return np.moveaxis(rounded, -1, axis)
        flat = rows.reshape(-1, shape[-1])
        high = self.block if self.tile else 1
        # What fills up the last block must not be its least value or its largest.
        more = [(0, -flat.shape[0] % high), (0, -flat.shape[1] % self.block)]
        wide = np.pad(flat, more, mode="edge")
        blocks = wide.reshape(wide.shape[0] // high, high, -1, self.block)
        rounded = self._scaled(blocks, (1, 3), grid).reshape(wide.shape)
        cut = rounded[: flat.shape[0], : flat.shape[1]].reshape(shape)
        return np.moveaxis(cut, -1, axis)

    def _scaled(self, value: Array, axes: tuple[int, ...], grid: Grid) -> Array:
        if self.from_least:
            return self._from_least(value, axes, grid)
        largest = np.max(np.abs(value), axes, keepdims=True, initial=0.0)
        scales = self.scale.of(largest, grid)
        return grid.rounded(value / scales) * scales

    def _from_least(self, value: Array, axes: tuple[int, ...], grid: Grid) -> Array:
        """Integers from the least value, or 0, to the largest: 0 is one of them."""
        steps = np.float32((1 << grid.bits) - 1)
        smallest = np.minimum(np.min(value, axes, keepdims=True), 0)
        largest = np.maximum(np.max(value, axes, keepdims=True), 0)
        scale = self.scale.held((largest - smallest) / steps)
        scale = np.where(scale > 0, scale, np.float32(1))
        zero = np.rint(smallest / scale)
        rounded: Array = np.clip(np.rint(value / scale), zero, zero + steps) * scale
        return rounded


_BLOCKS = (16, 32, 64, 128)
_PLAIN = (
    *(SharedScale(shared) for shared in Shared),
    *(SharedScale(block=size) for size in _BLOCKS),
    SharedScale(block=128, tile=True),
    *(SharedScale(shared, from_least=True) for shared in (Shared.TENSOR, Shared.ROW)),
    *(SharedScale(block=size, from_least=True) for size in (32, 64, 128)),
)

ARITHMETIC = (
    *_PLAIN,
    *(replace(shared_scale, scale=scale) for shared_scale in _PLAIN for scale in _HELD),
    *(SharedScale(block=size, scale=Scale.POWER) for size in _BLOCKS),
    SharedScale(block=32, scale=Scale.POWER_UP),
    *(
        SharedScale(block=size, scale=scale)
        for size in (16, 32)
        for scale in (Scale.E4M3, Scale.E4M3_ALONE)
    ),
)
