"""Dynamic quantisation: scales that a kernel takes from the very values it is given.

No graph tells such a scale, and none needs to: it follows from the input. Runtimes differ in what
shares a scale (the tensor, an index of the batch, a row) and in whether the integers lie around 0
or reach from the least value to the largest. Which of these a device has, its own ops show.

Sources: the definition of ONNX's DynamicQuantizeLinear; TensorFlow Lite's description of dynamic
range quantisation, whose kernels differ by operator and by delegate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from divergraph.execute.contract import Array


class SharedBy(StrEnum):
    """The values that have one scale."""

    TENSOR = "the tensor"
    BATCH = "an index of the first axis"
    ROW = "what one row or place of the input holds, along its channels"
    PATCH = "what one output is made of: a row, or a patch of the input of a convolution"


@dataclass(frozen=True, slots=True)
class DynamicScale:
    """Rounds to 8 bits with the scale that the range of the values gives."""

    shared: SharedBy
    symmetric: bool
    from_least: bool = False
    """The integers reach from the least value itself, which need not be below 0."""

    def __call__(self, value: Array, channels: int = -1) -> Array:
        """*value* (float) quantised and dequantised, in its dtype; its *channels* lie along that
        axis. Patches are given as rows."""
        axes = self._axes(value.ndim, channels)
        wide = np.asarray(value, np.float32)
        if self.from_least:
            return self._from_least(wide, axes).astype(value.dtype)
        smallest = np.min(wide, axes, keepdims=True, initial=0.0)
        largest = np.max(wide, axes, keepdims=True, initial=0.0)
        with np.errstate(all="ignore"):
            if self.symmetric:
                scale, low, high = np.maximum(largest, -smallest) / np.float32(127), -127.0, 127.0
            else:
                scale = (largest - smallest) / np.float32(255)
                low = np.rint(smallest / scale)
                high = low + 255.0
            steps = np.clip(np.rint(wide / scale), low, high)
            quantised: Array = np.where(scale > 0.0, steps * scale, wide).astype(value.dtype)
        return quantised

    def _from_least(self, value: Array, axes: tuple[int, ...]) -> Array:
        if not value.size:
            return value
        smallest, largest = np.min(value, axes, keepdims=True), np.max(value, axes, keepdims=True)
        scale = (largest - smallest) / np.float32(255)
        with np.errstate(all="ignore"):
            stepped = np.rint((value - smallest) / scale) * scale + smallest
        return np.where(scale > 0.0, stepped, value)

    def _axes(self, ndim: int, channels: int) -> tuple[int, ...]:
        match self.shared:
            case SharedBy.TENSOR:
                return tuple(range(ndim))
            case SharedBy.BATCH:
                return tuple(range(1, ndim))
            case SharedBy.ROW | SharedBy.PATCH:
                return (channels % ndim,) if ndim else ()


DYNAMIC_SCALES = tuple(
    DynamicScale(shared, symmetric) for shared in SharedBy for symmetric in (False, True)
)
"""All that runtimes are known to do, the coarsest first."""
