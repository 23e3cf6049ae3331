"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.convolutions import Images, images, windows
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS, numpy_type
from divergraph.execute.translate.windows import SlidingWindows, put_back


def _windows(p: Piece, layout: Images, shape: Sequence[int]) -> SlidingWindows:
    size: Sequence[int]
    steps: Sequence[int] | None = None
    if p.op.type.endswith("V2"):  # sizes and strides are its last two inputs
        size, steps = (p.integers(at) for at in range(len(p) - 2, len(p)))
    else:
        size = p.attr("ksize")
    if any(int(size[at]) != 1 for at in (0, layout.axis)):
        raise NotTranslatedError(f"{p.op.type} over the batch or the channels")
    return windows(p, layout, layout.sizes(shape), layout.sizes(size), steps)


def _spatial(p: Piece) -> int:
    return 3 if "3D" in p.op.type else 2


@ROWS.row("MaxPool", "MaxPoolV2", "MaxPool3D", source=NN)
def max_pool(p: Piece) -> Outputs:
    """The largest element of each window."""
    layout = images(p, _spatial(p))
    over = _windows(p, layout, p.shape())
    image = layout.to_first(p, p.name())
    pooled = p.add("MaxPool", image, kernel_shape=over.size, strides=over.strides, pads=over.pads)
    return [layout.from_first(p, pooled)]


@ROWS.row("AvgPool", "AvgPool3D", source=NN)
def average_pool(p: Piece) -> Outputs:
    """The mean of each window, padding left out."""
    layout = images(p, _spatial(p))
    over = _windows(p, layout, p.shape())
    image = layout.to_first(p, p.name())
    pooled = p.add(
        "AveragePool",
        image,
        kernel_shape=over.size,
        strides=over.strides,
        pads=over.pads,
        count_include_pad=0,
    )
    return [layout.from_first(p, pooled)]


def _largest(p: Piece, layout: Images) -> tuple[Expr, Expr]:
    """The largest elements of all windows, and their places in all images, channels first."""
    over = _windows(p, layout, p.shape(0))
    values, places = p.add_many(
        *("MaxPool", 2, layout.to_first(p, p.name(0))),
        kernel_shape=over.size,
        strides=over.strides,
        pads=over.pads,
    )
    return values, places


@ROWS.row("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", source=NN)
def max_pool_grad(p: Piece) -> Outputs:
    """The gradient of each window put to its largest element, the first one of equal ones
    (``SpatialMaxPoolWithArgMaxHelper`` of core/kernels/maxpooling_op.cc, and oneDNN).

    By ``equal_elements``, an attribute of ours, "all" of them get it (as from
    ``LaunchMaxPooling3dGradOp`` of core/kernels/pooling_ops_3d.cc) or "none"."""
    layout = images(p, _spatial(p))
    if (which := p.attr("equal_elements", "first")) != "first":
        return [layout.from_first(p, _put_to_equal_ones(p, layout, only_alone=which == "none"))]
    _, places = _largest(p, layout)
    gradient = layout.to_first(p, p.name(2))
    n, channels, sizes = p.shape(0)[0], p.shape(0)[layout.axis], layout.sizes(p.shape(0))
    count = int(np.prod((n, channels, *sizes), dtype=np.int64))
    zeros = p.const(np.zeros(count, p.dtype(2)))
    flat = p.reshape(gradient, (-1,)) if count else gradient
    put = p.add("ScatterElements", zeros, p.reshape(places, (-1,)), flat, axis=0, reduction="add")
    return [layout.from_first(p, p.reshape(put, (n, channels, *sizes)))]


def _put_to_equal_ones(p: Piece, layout: Images, *, only_alone: bool) -> Expr:
    """The gradient of each window put to all elements of it that equal its largest one, or to that
    only if it is *alone*; channels first."""
    over = _windows(p, layout, p.shape(0))
    nothing = (0, 0)
    padded = p.add(
        *("Pad", layout.to_first(p, p.name(0)), p.ints(*nothing, *over.begin, *nothing, *over.end))
    )
    n, channels, sizes = p.shape(0)[0], p.shape(0)[layout.axis], layout.sizes(p.shape(0))
    padded_sizes = tuple(map(sum, zip(over.begin, sizes, over.end, strict=True)))
    many = n * channels

    def by_place(tensor: Expr, *places: int) -> Expr:
        return p.transpose(p.reshape(tensor, (many, int(np.prod(places, dtype=np.int64)))), 1, 0)

    # Rows are the elements of the padded images; each window reads them at these places.
    numbers = np.arange(np.prod(padded_sizes, dtype=np.int64)).reshape(padded_sizes)
    read = np.stack([numbers[at].ravel() for at in _inside(over)])
    seen = p.add("Gather", by_place(padded, *padded_sizes), read, axis=0)
    largest = by_place(layout.to_first(p, p.name(1)), *over.out)
    gradient = by_place(layout.to_first(p, p.name(2)), *over.out)
    chosen = seen.equals(largest)
    if only_alone:
        count = p.add("ReduceSum", p.cast(chosen, np.int64), p.ints(0))
        chosen = chosen & count.equals(p.ints(1))
    gradients = p.add("Where", chosen, gradient, 0)
    zeros = p.const(np.zeros((numbers.size, many), p.dtype(2)))
    put = p.add("ScatterND", zeros, read[..., None], gradients, reduction="add")
    back = p.reshape(p.transpose(put, 1, 0), (n, channels, *padded_sizes))
    stop = [begin + size for begin, size in zip(over.begin, sizes, strict=True)]
    axes = p.ints(*range(2, 2 + layout.spatial))
    return p.add("Slice", back, p.ints(*over.begin), p.ints(*stop), axes)


def _inside(over: SlidingWindows) -> list[tuple[slice, ...]]:
    """For each place inside of a window, that element of all windows over the padded images."""
    return [
        tuple(
            slice(first, first + (count - 1) * step + 1, step)
            for first, count, step in zip(place, over.out, over.strides, strict=True)
        )
        for place in product(*map(range, over.size))
    ]


@ROWS.row("MaxPoolGradGrad", "MaxPoolGradGradV2", source=NN)
def max_pool_grad_grad(p: Piece) -> Outputs:
    """What *grad* has where each window has its largest element."""
    layout = images(p)
    _, places = _largest(p, layout)
    flat = p.reshape(layout.to_first(p, p.name(2)), (-1,))
    return [layout.from_first(p, p.add("Gather", flat, places, axis=0))]


@ROWS.row("MaxPoolWithArgmax", source=NN)
def max_pool_with_places(p: Piece) -> Outputs:
    """The largest element of each window, and its place in the image, channels last."""
    layout = Images(first=False, spatial=2)
    values, places = _largest(p, layout)
    _, high, wide, channels = p.shape(0)
    column, row, channel, image = _digits(p, places, (wide, high, channels))
    numbers = _number(p, (row, column, channel), (wide, channels))
    if p.attr("include_batch_in_index", False):
        image_size = p.const(np.array(high * wide * channels))
        numbers = numbers + image * image_size
    kind = numpy_type(p.attr("Targmax", "int64"))
    return [layout.from_first(p, values), p.cast(layout.from_first(p, numbers), kind)]


def _digits(p: Piece, places: Expr, sizes: Sequence[int]) -> list[Expr]:
    """Places as numbers along each axis, the innermost first; the rest is the outermost."""
    digits = []
    for size in sizes:
        base = p.const(np.array(size))
        digits.append(p.add("Mod", places, base))
        places = places / base
    return [*digits, places]


def _number(p: Piece, digits: Sequence[Expr], sizes: Sequence[int]) -> Expr:
    """The place that numbers along the axes are, the outermost first."""
    total, *rest = digits
    for digit, size in zip(rest, sizes, strict=True):
        total = total * p.const(np.array(size)) + digit
    return total


@ROWS.row("MaxPoolGradWithArgmax", source=NN)
def max_pool_grad_by_places(p: Piece) -> Outputs:
    """The gradient of each window put to the place that is said."""
    shape = p.shape(0)
    places = p.cast(p.name(2), np.int64)
    if not p.attr("include_batch_in_index", False):
        image_size = int(np.prod(shape[1:], dtype=np.int64))
        before = np.arange(shape[0], dtype=np.int64).reshape(-1, 1, 1, 1) * image_size
        places = places + p.const(before)
    zeros = p.const(np.zeros(int(np.prod(shape, dtype=np.int64)), p.dtype(1)))
    flat = (
        p.reshape(operand, (int(np.prod(p.shape(1), dtype=np.int64)),))
        for operand in (places, p.name(1))
    )
    put = p.add("ScatterElements", zeros, *flat, axis=0, reduction="add")
    return [p.reshape(put, shape)]


@ROWS.row("AvgPoolGrad", "AvgPool3DGrad", source=NN)
def average_pool_grad(p: Piece) -> Outputs:
    """The gradient of each window, shared out evenly to the elements in it."""
    layout = images(p, _spatial(p))
    shape = p.integers(0)
    over = _windows(p, layout, shape)
    sizes, channels = layout.sizes(shape), shape[layout.axis]
    counts = np.ones(over.out)
    for at in product(*map(range, over.out)):
        for axis, size in enumerate(sizes):
            first = at[axis] * over.strides[axis] - over.begin[axis]
            counts[at] *= min(first + over.size[axis], size) - max(first, 0)
    shared = layout.to_first(p, p.name(1)) / p.const(counts.astype(p.dtype(1)))
    ones = p.const(np.ones((channels, 1, *over.size), p.dtype(1)))
    back = put_back(p, shared, ones, over, sizes, channels)
    return [layout.from_first(p, back)]


@ROWS.row("LRN", source=NN)
def local_response(p: Piece) -> Outputs:
    """Each element by the squares of those beside it along the last axis."""
    size = 2 * int(p.attr("depth_radius", 5)) + 1
    normalised = p.add(
        "LRN",
        p.transpose(p.name(), 0, 3, 1, 2),
        size=size,
        # ONNX divides alpha by the size.
        alpha=float(p.attr("alpha", 1.0)) * size,
        beta=float(p.attr("beta", 0.5)),
        bias=float(p.attr("bias", 1.0)),
    )
    return [p.transpose(normalised, 0, 2, 3, 1)]


@ROWS.row("LRNGrad", source=NN)
def local_response_grad(p: Piece) -> Outputs:
    """dy / norm^beta less 2 alpha beta x times the sum of dy y / norm beside each element."""
    gradient, x, y = (p.name(at) for at in range(3))
    radius = int(p.attr("depth_radius", 5))
    alpha, beta = float(p.attr("alpha", 1.0)), float(p.attr("beta", 0.5))

    def beside(tensor: Expr) -> Expr:
        """The sums of each element with those beside it."""
        lines = p.reshape(tensor, (-1, 1, p.shape(1)[-1]))
        ones = p.const(np.ones((1, 1, 2 * radius + 1), p.dtype(1)))
        return p.reshape(p.add("Conv", lines, ones, pads=(radius, radius)), p.shape(1))

    norm = beside(x * x) * alpha + float(p.attr("bias", 1.0))
    less = x * beside(gradient * y / norm) * (2 * alpha * beta)
    return [gradient * norm ** (-beta) - less]
