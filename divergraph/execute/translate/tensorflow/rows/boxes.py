"""Ops of detectors: which boxes to keep, and what is in a box."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import (
    ARRAY,
    DATA_FLOW,
    IMAGE,
    MATH,
    NN,
    ROWS,
    SPARSE,
    numpy_type,
)

_KEPT = ("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")


@ROWS.row(*_KEPT, source=IMAGE)
def non_max_suppression(p: Piece) -> Outputs:
    """The places of the boxes with the highest scores that do not overlap too much."""
    boxes, scores = (
        p.add("Unsqueeze", p.name(0), p.ints(0)),
        p.add("Unsqueeze", p.name(1), p.ints(0, 1)),
    )
    limit = p.reshape(p.cast(p.name(2), np.int64), (1,))
    overlap = p.name(3) if p.has(3) else np.array(p.attr("iou_threshold", 0.5), np.float32)
    lowest_score = p.reshape(p.cast(p.name(4), np.float32), (1,)) if p.has(4) else None
    if isinstance(overlap, str):
        overlap = p.reshape(p.cast(overlap, np.float32), (1,))
    chosen = p.add("NonMaxSuppression", boxes, scores, limit, overlap, lowest_score)
    places = p.cast(p.reshape(p.add("Gather", chosen, p.ints(2), axis=1), (-1,)), np.int32)
    count = p.cast(p.reshape(p.add("Shape", places), ()), np.int32)
    if not p.attr("pad_to_max_output_size", False):
        return [places, count]
    missing = limit - p.add("Shape", places)
    return [p.add("Pad", places, p.add("Concat", p.ints(0), missing, axis=0)), count]


@ROWS.row("CropAndResize", source=IMAGE)
def crop_and_resize(p: Piece) -> Outputs:
    """Boxes of images, each in the same size (core/kernels/image/crop_and_resize_op.cc)."""
    how = p.attr("method", "bilinear")
    if how not in ("bilinear", "nearest"):
        raise NotTranslatedError(f"CropAndResize by {how}")
    height, width = p.integers(3)
    _, image_height, image_width, _ = p.shape(0)
    image = p.cast(p.name(0), np.float32)
    y, inside_y = _places(p, 0, height, image_height)
    x, inside_x = _places(p, 1, width, image_width)
    y, inside_y = (p.add("Unsqueeze", operand, p.ints(2)) for operand in (y, inside_y))  # n h 1
    x, inside_x = (p.add("Unsqueeze", operand, p.ints(1)) for operand in (x, inside_x))  # n 1 w
    if how == "nearest":
        corner = _at(p, image, _rounded(y), _rounded(x))
    else:
        top, bottom = (_limited(p, p.add(kind, y), image_height) for kind in ("Floor", "Ceil"))
        left_at, right = (_limited(p, p.add(kind, x), image_width) for kind in ("Floor", "Ceil"))
        down = _last(p, y - y.floor())
        across = _last(p, x - x.floor())
        upper = _between(_at(p, image, top, left_at), _at(p, image, top, right), across)
        lower = _between(_at(p, image, bottom, left_at), _at(p, image, bottom, right), across)
        corner = _between(upper, lower, down)
    inside = _last(p, inside_y & inside_x)
    outside = np.array(p.attr("extrapolation_value", 0.0), np.float32)
    return [p.add("Where", inside, corner, p.const(outside))]


def _places(p: Piece, side: int, count: int, size: int) -> tuple[Expr, Expr]:
    """Where on an image of *size* the elements of each box lie, and which of them are on it."""
    first = p.add("Gather", p.name(1), p.ints(side), axis=1)  # n 1
    last = p.add("Gather", p.name(1), p.ints(side + 2), axis=1)
    reach = np.array(size - 1, np.float32)
    if count > 1:
        step = (last - first) * reach
        step = step / np.array(count - 1, np.float32)
        along = step * np.arange(count, dtype=np.float32)[None]
        positions = first * reach + along
    else:
        positions = (first + last) * 0.5 * reach
    return positions, (positions >= 0) & (positions <= reach)


def _rounded(places: Expr) -> Expr:
    """Places to the nearest whole number, halves away from zero."""
    return (places + 0.5).floor()


def _limited(p: Piece, places: Expr, size: int) -> Expr:
    return p.add("Clip", places, 0, np.array(size - 1, np.float32))


def _last(p: Piece, tensor: Expr) -> Expr:
    return p.add("Unsqueeze", tensor, p.ints(3))


def _at(p: Piece, image: Expr, y: Expr, x: Expr) -> Expr:
    """The elements of each box's image at its places."""
    _, height, width, channels = p.shape(0)
    row = p.cast(_limited(p, y, height), np.int64) * np.array(width, np.int64)
    places = row + p.cast(_limited(p, x, width), np.int64)
    number = p.reshape(p.cast(p.name(2), np.int64), (-1, 1, 1))
    places = number * np.array(height * width, np.int64) + places
    return p.add("Gather", p.reshape(image, (-1, channels)), places, axis=0)


def _between(first: Expr, second: Expr, share: Expr) -> Expr:
    return first + (second - first) * share


@ROWS.row("SparseToDense", source=SPARSE)
def sparse_to_dense(p: Piece) -> Outputs:
    """A value everywhere, others at the places that are listed."""
    indices, shape = p.cast(p.name(0), np.int64), p.integers(1)
    if p.rank(0) < 2:  # places on one axis; none is one place
        indices = p.reshape(indices, (-1, len(shape)))
    count = p.add("Shape", indices, start=0, end=1)
    values = p.add("Expand", p.name(2), count)
    filled = p.add("Expand", p.name(3), p.ints(*shape))
    return [p.add("ScatterND", filled, indices, values)]


# Ops that count, compare and part.


@ROWS.row("DynamicPartition", source=DATA_FLOW)
def dynamic_partition(p: Piece) -> Outputs:
    """The rows that each part gets."""
    rest = p.shape(0)[p.rank(1) :]
    count = int(np.prod(p.shape(1), dtype=np.int64))
    data = p.reshape(p.name(0), (count, *rest))
    parts = p.reshape(p.name(1), (count,))
    return [
        p.add("Compress", data, parts.equals(p.const(np.array(at, p.dtype(1)))), axis=0)
        for at in range(int(p.attr("num_partitions")))
    ]


@ROWS.row("ListDiff", source=ARRAY)
def list_diff(p: Piece) -> Outputs:
    """The elements of one list that the other has not, and where they are."""
    kind = numpy_type(p.attr("out_idx", "int32"))
    wide = np.int64 if p.dtype().kind in "iu" else np.float64
    x, y = (p.cast(p.name(at), wide) for at in (0, 1))
    if not p.shape(1)[0]:
        places = p.ints(*range(p.shape(0)[0]))
    else:
        same = p.add("Unsqueeze", x, p.ints(1)).equals(p.add("Unsqueeze", y, p.ints(0)))
        hit = p.add("ReduceMax", p.cast(same, np.int32), p.ints(1), keepdims=0)
        places = p.reshape(p.add("NonZero", hit.equals(0)), (-1,))
    return [p.add("Gather", p.name(0), places, axis=0), p.cast(places, kind)]


@ROWS.row("InTopK", "InTopKV2", source=NN)
def in_top_k(p: Piece) -> Outputs:
    """Whether fewer than k predictions are above that of the target; not where any is no number."""
    (k,) = p.integers(2) if p.has(2) else (int(p.attr("k")),)
    predictions, classes = p.name(0), p.shape(0)[1]
    targets = p.cast(p.reshape(p.name(1), (p.shape(1)[0], 1)), np.int64)
    is_inside = (targets >= 0) & (targets < p.const(np.array(classes)))
    safe = p.add("Where", is_inside, targets, 0)
    own = p.add("GatherElements", predictions, safe, axis=1)
    above = p.cast(predictions > own, np.int64)
    count = p.add("ReduceSum", above, p.ints(1), keepdims=1)
    nonfinite = p.cast(p.add("IsNaN", predictions) | p.add("IsInf", predictions), np.int64)
    even = p.add("ReduceMax", nonfinite, p.ints(1), keepdims=1).equals(0)
    is_in_top = (count < p.const(np.array(k))) & (is_inside & even)
    return [p.reshape(is_in_top, (p.shape(1)[0],))]


@ROWS.row("LowerBound", "UpperBound", source=ARRAY)
def bound(p: Piece) -> Outputs:
    """How many sorted elements are below each value, or not above it."""
    kind = numpy_type(p.attr("out_type", "int32"))
    ordered = p.add("Unsqueeze", p.name(0), p.ints(1))
    values = p.add("Unsqueeze", p.name(1), p.ints(2))
    how = "Less" if p.op.type == "LowerBound" else "LessOrEqual"
    below = p.cast(p.add(how, ordered, values), kind)
    return [p.add("ReduceSum", below, p.ints(2), keepdims=0)]


@ROWS.row("Bucketize", source=MATH)
def bucketize(p: Piece) -> Outputs:
    """The number of boundaries that are not above each element."""
    bounds = np.array(p.attr("boundaries", ()), np.float32)
    if not bounds.size:
        return [p.const(np.zeros(p.shape(), np.int32))]
    value = p.add("Unsqueeze", p.cast(p.name(), np.float32), p.ints(p.rank()))
    reached = p.cast(value >= p.const(bounds), np.int32)
    return [p.add("ReduceSum", reached, p.ints(p.rank()), keepdims=0)]


@ROWS.row("HistogramFixedWidth", source=MATH)
def histogram(p: Piece) -> Outputs:
    """How many values lie in each of so many equal parts of a range; those outside count in the
    first or the last."""
    (count,) = p.integers(2)
    kind = numpy_type(p.attr("dtype", "int32"))
    low, high = (p.add("Gather", p.name(1), p.const(np.array(at)), axis=0) for at in (0, 1))
    values = p.reshape(p.name(0), (int(np.prod(p.shape(0), dtype=np.int64)), 1))
    low, high, values = (p.cast(operand, np.float64) for operand in (low, high, values))
    step = (high - low) / p.const(np.array(count, np.float64))
    part = ((values - low) / step).floor()
    part = p.add("Clip", part, 0.0, np.array(count - 1.0))
    hit = p.cast(part.equals(p.const(np.arange(count, dtype=np.float64))), kind)
    return [p.add("ReduceSum", hit, p.ints(0), keepdims=0)]


@ROWS.row("UnravelIndex", source=ARRAY)
def unravel_index(p: Piece) -> Outputs:
    """Places as numbers along each axis."""
    sizes = p.integers(1)
    indices, rest = [], p.name(0)
    for size in reversed(sizes):
        divisor = p.const(np.array(size, p.dtype(0)))
        indices.append(p.add("Unsqueeze", p.add("Mod", rest, divisor), p.ints(0)))
        rest = rest / divisor
    return [p.add("Concat", *reversed(indices), axis=0)]
