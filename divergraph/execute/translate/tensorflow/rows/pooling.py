"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.layouts import Images, images, windows
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS
from divergraph.execute.translate.windows import SlidingWindows, put_back


def _windows(p: Piece, held: Images, shape: Sequence[int]) -> SlidingWindows:
    size = p.attr("ksize")
    if any(int(size[at]) != 1 for at in (0, held.axis)):
        raise NotTranslatedError(f"{p.op.type} over the batch or the channels")
    return windows(p, held, held.sizes(shape), held.sizes(size))


@ROWS.row("MaxPool", "MaxPool3D", source=NN)
def max_pool(p: Piece) -> Sequence[str]:
    """The largest element of each window."""
    held = images(p, 3 if p.op.type.endswith("3D") else 2)
    over = _windows(p, held, p.shape())
    image = held.to_first(p, p.name())
    found = p.add("MaxPool", image, kernel_shape=over.size, strides=over.strides, pads=over.pads)
    return [held.from_first(p, found)]


@ROWS.row("AvgPool", "AvgPool3D", source=NN)
def average_pool(p: Piece) -> Sequence[str]:
    """The mean of each window, padding left out."""
    held = images(p, 3 if p.op.type.endswith("3D") else 2)
    over = _windows(p, held, p.shape())
    image = held.to_first(p, p.name())
    found = p.add(
        "AveragePool",
        image,
        kernel_shape=over.size,
        strides=over.strides,
        pads=over.pads,
        count_include_pad=0,
    )
    return [held.from_first(p, found)]


@ROWS.row("MaxPoolGrad", source=NN)
def max_pool_grad(p: Piece) -> Sequence[str]:
    """The gradient of each window put to its largest element, the first one of equal ones
    (``SpatialMaxPoolWithArgMaxHelper`` of core/kernels/maxpooling_op.cc)."""
    held = images(p)
    over = _windows(p, held, p.shape(0))
    image = held.to_first(p, p.name(0))
    _, places = p.add_many(
        "MaxPool", 2, image, kernel_shape=over.size, strides=over.strides, pads=over.pads
    )
    gradient = held.to_first(p, p.name(2))
    n, channels, (high, wide) = p.shape(0)[0], p.shape(0)[held.axis], held.sizes(p.shape(0))
    count = n * channels * high * wide
    zeros = p.const(np.zeros(count, p.dtype(2)))
    flat = p.reshape(gradient, (-1,)) if count else gradient
    put = p.add("ScatterElements", zeros, p.reshape(places, (-1,)), flat, axis=0, reduction="add")
    return [held.from_first(p, p.reshape(put, (n, channels, high, wide)))]


@ROWS.row("AvgPoolGrad", source=NN)
def average_pool_grad(p: Piece) -> Sequence[str]:
    """The gradient of each window, shared out evenly to the elements in it."""
    held = images(p)
    shape = p.integers(0)
    over = _windows(p, held, shape)
    (high, wide), channels = held.sizes(shape), shape[held.axis]
    counts = np.ones(over.out)
    for at in product(*map(range, over.out)):
        for axis, size in enumerate((high, wide)):
            first = at[axis] * over.strides[axis] - over.begin[axis]
            counts[at] *= min(first + over.size[axis], size) - max(first, 0)
    gradient = held.to_first(p, p.name(1))
    shared = p.add("Div", gradient, p.const(counts.astype(p.dtype(1))))
    ones = p.const(np.ones((channels, 1, *over.size), p.dtype(1)))
    back = put_back(p, shared, ones, over, (high, wide), channels)
    return [held.from_first(p, back)]


@ROWS.row("LRN", source=NN)
def local_response(p: Piece) -> Sequence[str]:
    """Each element by the squares of those beside it along the last axis."""
    radius = int(p.attr("depth_radius", 5))
    size = 2 * radius + 1
    found = p.add(
        "LRN",
        p.transpose(p.name(), 0, 3, 1, 2),
        size=size,
        # ONNX divides alpha by the size.
        alpha=float(p.attr("alpha", 1.0)) * size,
        beta=float(p.attr("beta", 0.5)),
        bias=float(p.attr("bias", 1.0)),
    )
    return [p.transpose(found, 0, 2, 3, 1)]
