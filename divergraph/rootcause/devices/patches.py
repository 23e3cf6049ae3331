"""Convolutions of patches: what one output is made of, laid out as a row of a matrix product.

Kernels that multiply in integers and take their scales from the values do so row by row. Of a
convolution a row is a patch of its input, and one value lies in many patches, each with a scale of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import Op

_SAME = 0.2
"""Quantising costs a per cent or so; another padding or stride gives other values altogether."""


_COPIES = 6
"""How many times the bytes of patches a product needs: as they are, scaled, rounded. Counted."""


def has_patches(op: Op, weight: Array) -> bool:
    """Whether *op* is a convolution of ONNX whose patches are more than one place."""
    return op.type == "Conv" and max(weight.shape[2:], default=1) > 1


def of_patches(
    op: Op,
    feeds: Mapping[str, Array],
    output: Array,
    rounded: Callable[[Array], Array],
    memory: int,
) -> Array | None:
    """What a convolution makes of *feeds* (arrays by tensor name) where each patch, a row of the
    last axis, is *rounded*; None where an executor *output* something else without. As many patches
    are there at once as have room in *memory* bytes."""
    read = [None if ref is None else feeds.get(ref.tensor) for ref in op.inputs]
    x, w = (*read, None, None)[:2]
    if x is None or w is None or x.ndim != w.ndim or output.ndim != x.ndim:
        return None
    cut = Patches.of(op, x, w, output.shape)
    if cut is None or not output.size:
        return None
    groups, outputs = cut.groups, w.shape[0]
    matrix = w.reshape(groups, outputs // groups, -1).transpose(0, 2, 1)
    # Each output has a patch, of as many values as the kernel.
    size = output.nbytes // outputs * (w.size // outputs) * groups // output.shape[2]
    blocks = cut.rows(x, max(memory // max(_COPIES * size, 1), 1))
    products = [np.matmul(rounded(rows), matrix) for rows in blocks]
    product = np.concatenate(products, axis=2).transpose(0, 1, 3, 2).reshape(output.shape)
    if len(read) > 2 and read[2] is not None:
        product = product + read[2].reshape(-1, *(1,) * (x.ndim - 2))
    is_close = np.linalg.norm(product - output) <= _SAME * np.linalg.norm(output)
    return np.asarray(product, output.dtype) if is_close else None


def _groups(op: Op) -> int:
    attr = op.attrs.get("group", 1)
    return attr if isinstance(attr, int) else 1


@dataclass(frozen=True, slots=True)
class Patches:
    """Patches of *kernel* places, *dilations* apart, with a step of *strides* between them."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int

    @classmethod
    def of(cls, op: Op, x: Array, w: Array, output_shape: tuple[int, ...]) -> Patches | None:
        """The patches of *x* that *op* multiplies by *w* to give an output of this shape; None
        where the channels do not fit."""
        kernel, groups = w.shape[2:], _groups(op)
        strides, dilations = (_numbers(op, name, len(kernel)) for name in ("strides", "dilations"))
        attr = op.attrs.get("pads")
        pads = []
        for n, size in enumerate(x.shape[2:]):
            needed = (output_shape[2 + n] - 1) * strides[n] + (kernel[n] - 1) * dilations[n] + 1
            padding = max(0, needed - size)
            if isinstance(attr, tuple):
                before = int(str(attr[n]))
            else:
                before = (
                    padding - padding // 2
                    if op.attrs.get("auto_pad") == "SAME_LOWER"
                    else padding // 2
                )
            pads.append((before, max(0, needed - size - before)))
        if x.shape[1] != w.shape[1] * groups or output_shape[1] != w.shape[0]:
            return None
        return cls(kernel, strides, dilations, tuple(pads), groups)

    def rows(self, x: Array, count: int) -> Iterator[Array]:
        """The patches of *x* as [batch, groups, places, values of a patch], those of *count* places
        along the first axis at once."""
        axes = len(self.kernel)
        x = np.pad(x, [(0, 0), (0, 0), *self.pads])
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + axes)))
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in self.strides))
        inside = tuple(slice(None, None, d) for d in self.dilations)
        seen = seen[(*steps, *inside)]
        batch, channels = seen.shape[:2]
        order = (0, 1, *range(3, 3 + axes), 2, *range(3 + axes, 3 + 2 * axes))
        for start in range(0, seen.shape[2], count):
            part = seen[:, :, start : start + count]
            places = math.prod(part.shape[2 : 2 + axes])
            part = part.reshape(batch, self.groups, channels // self.groups, *part.shape[2:])
            yield np.transpose(part, order).reshape(batch, self.groups, places, -1)


def _numbers(op: Op, name: str, count: int) -> tuple[int, ...]:
    attr = op.attrs.get(name)
    if isinstance(attr, tuple) and len(attr) == count:
        return tuple(int(str(number)) for number in attr)
    return (1,) * count
