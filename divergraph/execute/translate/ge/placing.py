"""Ops that put values in other places: segments, sorted and reversed ones, resized pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    ARRAY,
    ROWS,
    axes_of,
    four_axes,
    layout,
    needed,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Piece

_LAST = np.iinfo(np.int64).max


@ROWS.row("ReverseV2", "ReverseV2D", source=ARRAY)
def _reversed(piece: Piece) -> Sequence[str]:
    axes = axes_of(piece, "axis", 1)
    ones = (1,) * len(axes)
    return [
        piece.add(
            "Slice",
            needed(piece, 0),
            piece.ints(*(-factor for factor in ones)),
            piece.ints(*(-_LAST for _ in ones)),
            piece.ints(*axes),
            piece.ints(*(-factor for factor in ones)),
        )
    ]


@ROWS.row("UnsortedSegmentSum", "UnsortedSegmentSumD", source=ARRAY)
def _segments(piece: Piece) -> Sequence[str]:
    shape, kind = output_shape(piece), piece.dtype(0)
    rank = piece.rank(1)
    ids = piece.cast(needed(piece, 1), np.int64)
    last = piece.add("Unsqueeze", ids, piece.ints(rank))
    zeros = piece.add("Expand", piece.const(np.array(0, kind)), piece.ints(*shape))
    return [piece.add("ScatterND", zeros, last, needed(piece, 0), reduction="add")]


@ROWS.row(
    *("ResizeNearestNeighborV2", "ResizeNearestNeighborV2D"),
    *("ResizeBilinearV2", "ResizeBilinearV2D"),
    source=ARRAY,
)
def _resized(piece: Piece) -> Sequence[str]:
    here = four_axes(layout(piece))
    sizes = dict(zip(here, output_shape(piece), strict=True))
    is_nearest = "Nearest" in piece.op.type
    centres = bool(piece.attr("half_pixel_centers", False))
    corners = bool(piece.attr("align_corners", False))
    if is_nearest and corners:
        raise NotTranslatedError(f"{piece.op.type} with aligned corners")
    coordinates = "asymmetric"
    if corners:
        coordinates = "align_corners"
    elif centres:
        coordinates = "tf_half_pixel_for_nn" if is_nearest else "half_pixel"
    if (
        coordinates == "tf_half_pixel_for_nn"
    ):  # ONNX gave the name up; without rounding it is half_pixel
        raise NotTranslatedError(f"{piece.op.type} with centres at half pixels")
    value = to_layout(piece, needed(piece, 0), here, "NCHW")
    result = piece.add(
        "Resize",
        value,
        None,
        None,
        piece.ints(*(sizes[axis] for axis in "NCHW")),
        mode="nearest" if is_nearest else "linear",
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor",
    )
    return [to_layout(piece, result, "NCHW", here)]


@ROWS.row("Upsample", source=ARRAY)
def _upsampled(piece: Piece) -> Sequence[str]:
    here = four_axes(layout(piece))
    steps = {"H": int(piece.attr("stride_h", 2)), "W": int(piece.attr("stride_w", 2))}
    scales = np.array([steps.get(axis, 1) for axis in "NCHW"], np.float32)
    value = to_layout(piece, needed(piece, 0), here, "NCHW")
    result = piece.add(
        *("Resize", value, None, scales),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    factor = float(piece.attr("scale", 1.0))
    result = result if factor == 1.0 else piece.add("Mul", result, piece.number(factor))
    return [to_layout(piece, result, "NCHW", here)]


@ROWS.row("TopK", "TopKV2", "TopKD", source=ARRAY)
def _largest(piece: Piece) -> Sequence[str]:
    """Of equal values the one that comes first."""
    if not piece.attr("sorted", True):
        raise NotTranslatedError(f"{piece.op.type} in any order")
    has_attr = piece.op.type == "TopKD"
    count = int(piece.attr("k")) if has_attr else int(piece.value(1).reshape(-1)[0])
    axis, largest = int(piece.attr("dim", -1)), int(bool(piece.attr("largest", True)))
    operands = (needed(piece, 0), piece.ints(count))
    values, places = piece.add_many("TopK", 2, *operands, axis=axis, largest=largest)
    return [values, piece.cast(places, np.int32)]


@ROWS.row("Unique", "UniqueWithCounts", source=ARRAY)
def _unique(piece: Piece) -> Sequence[str]:
    """The values in the order in which they come first, and for each element its place there."""
    kind, value = piece.dtype(0), needed(piece, 0)
    is_integer = kind.kind in "iu"
    results = piece.add_many(
        "Unique", 4, piece.cast(value, np.int64) if is_integer else value, sorted=0
    )
    values = piece.cast(results[0], kind) if is_integer else results[0]
    return [values, results[2], results[3]][: len(piece.op.outputs)]
