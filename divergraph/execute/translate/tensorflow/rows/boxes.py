"""Ops of detectors: which boxes to keep, and what is in a box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import IMAGE, ROWS, SPARSE

_KEPT = ("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")


@ROWS.row(*_KEPT, source=IMAGE)
def non_max_suppression(p: Piece) -> Sequence[str]:
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
    missing = p.add("Sub", limit, p.add("Shape", places))
    return [p.add("Pad", places, p.add("Concat", p.ints(0), missing, axis=0)), count]


@ROWS.row("CropAndResize", source=IMAGE)
def crop_and_resize(p: Piece) -> Sequence[str]:
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
        corner = _at(p, image, _rounded(p, y), _rounded(p, x))
    else:
        top, bottom = (_limited(p, p.add(kind, y), image_height) for kind in ("Floor", "Ceil"))
        left_at, right = (_limited(p, p.add(kind, x), image_width) for kind in ("Floor", "Ceil"))
        down = _last(p, p.add("Sub", y, p.add("Floor", y)))
        across = _last(p, p.add("Sub", x, p.add("Floor", x)))
        upper = _between(p, _at(p, image, top, left_at), _at(p, image, top, right), across)
        lower = _between(p, _at(p, image, bottom, left_at), _at(p, image, bottom, right), across)
        corner = _between(p, upper, lower, down)
    inside = _last(p, p.add("And", inside_y, inside_x))
    outside = np.array(p.attr("extrapolation_value", 0.0), np.float32)
    return [p.add("Where", inside, corner, p.const(outside))]


def _places(p: Piece, side: int, count: int, size: int) -> tuple[str, str]:
    """Where on an image of *size* the elements of each box lie, and which of them are on it."""
    first = p.add("Gather", p.name(1), p.ints(side), axis=1)  # n 1
    last = p.add("Gather", p.name(1), p.ints(side + 2), axis=1)
    reach = np.array(size - 1, np.float32)
    if count > 1:
        step = p.add("Mul", p.add("Sub", last, first), reach)
        step = p.add("Div", step, np.array(count - 1, np.float32))
        along = p.add("Mul", step, np.arange(count, dtype=np.float32)[None])
        positions = p.add("Add", p.add("Mul", first, reach), along)
    else:
        middle = p.add("Mul", p.add("Add", first, last), np.array(0.5, np.float32))
        positions = p.add("Mul", middle, reach)
    low = p.add("GreaterOrEqual", positions, np.array(0, np.float32))
    return positions, p.add("And", low, p.add("LessOrEqual", positions, reach))


def _rounded(p: Piece, places: str) -> str:
    """Places to the nearest whole number, halves away from zero."""
    return p.add("Floor", p.add("Add", places, np.array(0.5, np.float32)))


def _limited(p: Piece, places: str, size: int) -> str:
    return p.add("Clip", places, np.array(0, np.float32), np.array(size - 1, np.float32))


def _last(p: Piece, tensor: str) -> str:
    return p.add("Unsqueeze", tensor, p.ints(3))


def _at(p: Piece, image: str, y: str, x: str) -> str:
    """The elements of each box's image at its places."""
    _, height, width, channels = p.shape(0)
    row = p.add("Mul", p.cast(_limited(p, y, height), np.int64), np.array(width, np.int64))
    places = p.add("Add", row, p.cast(_limited(p, x, width), np.int64))
    number = p.reshape(p.cast(p.name(2), np.int64), (-1, 1, 1))
    places = p.add("Add", p.add("Mul", number, np.array(height * width, np.int64)), places)
    return p.add("Gather", p.reshape(image, (-1, channels)), places, axis=0)


def _between(p: Piece, first: str, second: str, share: str) -> str:
    return p.add("Add", first, p.add("Mul", p.add("Sub", second, first), share))


@ROWS.row("SparseToDense", source=SPARSE)
def sparse_to_dense(p: Piece) -> Sequence[str]:
    """A value everywhere, others at the places that are listed."""
    indices, shape = p.cast(p.name(0), np.int64), p.integers(1)
    if p.rank(0) < 2:  # places on one axis; none is one place
        indices = p.reshape(indices, (-1, len(shape)))
    count = p.add("Shape", indices, start=0, end=1)
    values = p.add("Expand", p.name(2), count)
    filled = p.add("Expand", p.name(3), p.ints(*shape))
    return [p.add("ScatterND", filled, indices, values)]
