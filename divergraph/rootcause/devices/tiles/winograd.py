"""Convolutions computed over transformed tiles, as Winograd's algorithms do.

A tile of n values of an axis is transformed, multiplied n times by transformed weights and
transformed back to n - k + 1 outputs (k: the size of the kernel), with fewer multiplications than
the sums have terms. It is exact for real numbers. In float32 the transforms cancel: errors are ten
to a thousand units of the last place, and whoever has the same tile and points makes the same ones.

Source of the transforms: Toom and Cook's polynomial products, transposed, as in "Fast Algorithms
for Convolutional Neural Networks" (Lavin and Gray, 2016).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.contract import Array
from graphstore.model import Op

_FIRST = frozenset({"Conv"})
"""Ops of ONNX: channels in front, weights by output channel."""
_DEPTHWISE = frozenset({"DepthwiseConv2dNative", "DepthwiseConv2D"})
_CONVOLUTIONS = _FIRST | _DEPTHWISE | {"Conv2D"}
_SAME = 1e-3
"""The relative difference of two results of one convolution is far below, that of another padding
far above."""


def can_be_tiled(op: Op) -> bool:
    """Whether *op* is of a type and with attributes for which there are tiles."""
    steps = (op.attrs.get(name) for name in ("strides", "dilations"))
    ones = (step is None or tuple(np.atleast_1d(step)) == (1,) * np.size(step) for step in steps)
    return op.type in _CONVOLUTIONS and all(ones)


def kernel_of(op: Op) -> tuple[int, ...]:
    """The sizes of the kernel of a convolution along its axes; 3 each, as nearly all are that are
    computed over tiles, where it does not say."""
    attr = op.attrs.get("kernel_shape")
    if isinstance(attr, tuple) and all(isinstance(size, int) for size in attr):
        return tuple(int(str(size)) for size in attr)
    return (3, 3)


def has_channels_last(op: Op) -> bool:
    """Whether a convolution has its channels behind the axes it goes along."""
    return op.type not in _FIRST and op.attrs.get("data_format", "NHWC") == "NHWC"


INTEGERS = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0)
INVERSES = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
HALVES = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles that ``reach`` over so many values of each axis, and the points at which polynomials
    are taken; the last point is infinity."""

    reach: int
    points: tuple[float, ...]

    def transforms(self, kernel: int) -> tuple[Array, Array, Array]:
        """The matrices [outputs, reach] back from a tile, [reach, kernel] of weights and
        [reach, reach] of values, float64, for kernels of a size up to ``reach``."""
        points, outputs = np.array(self.points[: self.reach - 1]), self.reach - kernel + 1
        back = np.zeros((outputs, self.reach))
        back[:, :-1] = points ** np.arange(outputs)[:, None]
        back[-1, -1] = 1.0
        weights, values = np.zeros((self.reach, kernel)), np.zeros((self.reach, self.reach))
        for n, point in enumerate(points):
            others = np.delete(points, n)
            weights[n] = point ** np.arange(kernel) / np.prod(point - others)
            values[n, :-1] = np.poly(others)[::-1]
        weights[-1, -1] = 1.0
        values[-1] = np.poly(points)[::-1]
        return back, weights, values

    def convolved(self, op: Op, feeds: Mapping[str, Array], output: Array) -> Array | None:
        """What *op* makes of *feeds* (arrays by tensor name) over these tiles, in float32, where
        an executor gives *output* but for rounding; None for ops that are no convolution with
        stride 1 and neighbouring weights, and for kernels that do not pay."""
        convolution = _Convolution.of(op, feeds, output)
        if convolution is None or not all(1 <= k < self.reach for k in convolution.kernel):
            return None
        for before in convolution.paddings():
            result = convolution.result(self._product(convolution, before))
            size = float(np.linalg.norm(output))
            if float(np.linalg.norm(result - output)) <= _SAME * size:
                return result
        return None

    def _product(self, convolution: _Convolution, before: Sequence[int]) -> Array:
        """[batch, output channels, axes…] of values padded by *before*, without bias."""
        axes, batch = len(convolution.kernel), convolution.x.shape[0]
        x, w = convolution.x, convolution.w
        counts: list[int] = []
        backs: list[Array] = []
        pads = [(0, 0), (0, 0)]
        for axis, (kernel, size) in enumerate(
            zip(convolution.kernel, convolution.sizes, strict=True)
        ):
            outputs = self.reach - kernel + 1 if kernel > 1 else 1
            counts.append(-(-size // outputs))
            covered = counts[-1] * outputs + kernel - 1
            pads.append((before[axis], max(0, covered - before[axis] - x.shape[2 + axis])))
        x = np.pad(x, pads)
        for axis, kernel in enumerate(convolution.kernel):
            back, weights, values = self.transforms(kernel) if kernel > 1 else (np.eye(1),) * 3
            reach, step = len(values), len(back)
            # The tiles of this axis take its place; what is in a tile goes to the end.
            covered = counts[axis] * step + kernel - 1
            x = np.take(x, np.arange(covered), 2 + axis)
            x = np.lib.stride_tricks.sliding_window_view(x, reach, 2 + axis)
            x = np.take(x, np.arange(0, covered - reach + 1, step), 2 + axis)
            x = _along_last(x, values)
            # Weights are transformed once, by the compiler, in whatever precision it likes.
            w = np.tensordot(w, weights, (2, 1))
            backs.append(back)
        w = w.astype(np.float32)
        groups = x.shape[1] // w.shape[1]
        product = _multiplied(x, w, groups, axes)
        for axis in reversed(range(axes)):
            product = _along_last(product, backs[axis])
            # [batch, channels, tiles…, in tiles…]: outputs of a tile go behind its number.
            product = np.moveaxis(product, -1, 3 + axis)
            shape = (*product.shape[: 2 + axis], -1, *product.shape[4 + axis :])
            product = product.reshape(shape)
        cut = tuple(slice(size) for size in convolution.sizes)
        return product.reshape(batch, -1, *product.shape[2:])[(slice(None), slice(None), *cut)]


def _along_last(x: Array, matrix: Array) -> Array:
    """*x* with its last axis multiplied by *matrix*, added up in float32 term by term."""
    transformed = np.zeros((*x.shape[:-1], len(matrix)), np.float32)
    for row, factors in enumerate(matrix.astype(np.float32)):
        for place in np.flatnonzero(factors):
            transformed[..., row] += factors[place] * x[..., place]
    return transformed


def _multiplied(x: Array, w: Array, groups: int, axes: int) -> Array:
    """The products over channels of transformed values [batch, channels, tiles…, in tiles…] and
    weights [outputs, channels of a group, in tiles…], place by place."""
    batch, tiles, inside = x.shape[0], x.shape[2 : 2 + axes], x.shape[2 + axes :]
    x = x.reshape(batch, groups, -1, math.prod(tiles), math.prod(inside))
    w = w.reshape(groups, -1, w.shape[1], math.prod(inside))
    product = np.matmul(w.transpose(0, 3, 1, 2)[None], x.transpose(0, 1, 4, 2, 3))
    product = product.transpose(0, 1, 3, 4, 2)  # batch, groups, outputs of a group, tiles, in tiles
    return np.ascontiguousarray(product).reshape(batch, -1, *tiles, *inside)


@dataclass(frozen=True, slots=True)
class _Convolution:
    """``x`` [batch, channels, axes…], ``w`` [outputs, channels of a group, axes…], ``bias`` by
    output; ``sizes`` are those of the output's axes; ``last`` says that channels are in the end.
    """

    x: Array
    w: Array
    bias: Array | None
    kernel: tuple[int, ...]
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    last: bool

    @classmethod
    def of(cls, op: Op, feeds: Mapping[str, Array], output: Array) -> _Convolution | None:
        """The convolution that *op* is; None if it is none, or tiles cannot compute it."""
        read = [None if op_input is None else feeds.get(op_input.tensor) for op_input in op.inputs]
        if not can_be_tiled(op) or len(read) < 2:
            return None
        x, w, bias = read[0], read[1], read[2] if op.type in _FIRST and len(read) > 2 else None
        if x is None or w is None or not x.ndim == w.ndim == output.ndim or output.ndim < 3:
            return None
        if any(array.dtype != np.float32 for array in (x, w, output)):
            return None
        last = has_channels_last(op)
        x, sizes = (np.moveaxis(x, -1, 1), output.shape[1:-1]) if last else (x, output.shape[2:])
        if op.type in _DEPTHWISE:
            w = w.reshape(*w.shape[:2], 1, -1)
        w = w if op.type in _FIRST else np.transpose(w, (3, 2, 0, 1))
        kernel = w.shape[2:]
        padded = tuple(
            out + k - 1 - size for out, k, size in zip(sizes, kernel, x.shape[2:], strict=True)
        )
        fits = x.shape[1] % max(w.shape[1], 1) == 0 and all(padding >= 0 for padding in padded)
        if not fits or max(kernel) == 1 or not output.size:
            return None
        return cls(x, w, bias, kernel, tuple(sizes), padded, last)

    def paddings(self) -> list[tuple[int, ...]]:
        """How many zeros may stand in front of each axis: which of them is tried out."""
        lower = tuple(padding // 2 for padding in self.padded)
        upper = tuple(padding - padding // 2 for padding in self.padded)
        return list(dict.fromkeys((lower, upper, self.padded, (0,) * len(lower))))

    def result(self, product: Array) -> Array:
        """*product* with the bias, in the order of axes of the op."""
        if self.bias is not None:
            product = product + self.bias.reshape(-1, *(1,) * len(self.kernel))
        return np.moveaxis(product, 1, -1) if self.last else product


CANDIDATES: tuple[Tiles, ...] = (
    *(Tiles(reach, INTEGERS) for reach in (8, 6, 4, 7, 5)),
    *(Tiles(reach, points) for points in (INVERSES, HALVES) for reach in (8, 7)),
    Tiles(6, HALVES),
)
"""Those of the libraries that state theirs; with integers and inverses the first five points are
the same."""
