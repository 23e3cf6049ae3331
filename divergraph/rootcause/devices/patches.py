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
    given: Mapping[str, Array],
    made: Array,
    rounded: Callable[[Array], Array],
    memory: int,
) -> Array | None:
    """What a convolution makes of *given* (arrays by tensor name) where each patch, a row of the
    last axis, is *rounded*; None where an executor *made* something else without. As many patches
    are there at once as have room in *memory* bytes."""
    read = [None if each is None else given.get(each.tensor) for each in op.inputs]
    x, w = (*read, None, None)[:2]
    if x is None or w is None or x.ndim != w.ndim or made.ndim != x.ndim:
        return None
    found = Patches.of(op, x, w, made.shape)
    if found is None or not made.size:
        return None
    groups, outputs = found.groups, w.shape[0]
    matrix = w.reshape(groups, outputs // groups, -1).transpose(0, 2, 1)
    # Each output has a patch, of as many values as the kernel.
    size = made.nbytes // outputs * (w.size // outputs) * groups // made.shape[2]
    blocks = found.rows(x, max(memory // max(_COPIES * size, 1), 1))
    products = [np.matmul(rounded(rows), matrix) for rows in blocks]
    product = np.concatenate(products, axis=2).transpose(0, 1, 3, 2).reshape(made.shape)
    if len(read) > 2 and read[2] is not None:
        product = product + read[2].reshape(-1, *(1,) * (x.ndim - 2))
    near = np.linalg.norm(product - made) <= _SAME * np.linalg.norm(made)
    return np.asarray(product, made.dtype) if near else None


def _groups(op: Op) -> int:
    found = op.attrs.get("group", 1)
    return found if isinstance(found, int) else 1


@dataclass(frozen=True, slots=True)
class Patches:
    """Patches of *kernel* places, *dilations* apart, with a step of *strides* between them."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    groups: int

    @classmethod
    def of(cls, op: Op, x: Array, w: Array, made: tuple[int, ...]) -> Patches | None:
        """The patches of *x* that *op* multiplies by *w* to give an output of shape *made*; None
        where the channels do not fit."""
        kernel, groups = w.shape[2:], _groups(op)
        strides, dilations = (_numbers(op, name, len(kernel)) for name in ("strides", "dilations"))
        said = op.attrs.get("pads")
        pads = []
        for n, size in enumerate(x.shape[2:]):
            needed = (made[2 + n] - 1) * strides[n] + (kernel[n] - 1) * dilations[n] + 1
            whole = max(0, needed - size)
            if isinstance(said, tuple):
                before = int(str(said[n]))
            else:
                before = (
                    whole - whole // 2 if op.attrs.get("auto_pad") == "SAME_LOWER" else whole // 2
                )
            pads.append((before, max(0, needed - size - before)))
        if x.shape[1] != w.shape[1] * groups or made[1] != w.shape[0]:
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
    said = op.attrs.get(name)
    if isinstance(said, tuple) and len(said) == count:
        return tuple(int(str(each)) for each in said)
    return (1,) * count
