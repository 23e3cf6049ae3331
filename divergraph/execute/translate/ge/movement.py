"""Ops that only move values, change their type, or say shapes."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    ARRAY,
    ROWS,
    alike,
    as_output,
    axes_of,
    four_axes,
    integers,
    layout,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Outputs, Piece


@ROWS.row(
    *("Reshape", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3"),
    *("ExpandDims", "Flatten", "FlattenV2", "Identity", "StopGradient", "TransDataRNN"),
    *("PreventGradient", "Snapshot", "Copy"),
    source=ARRAY,
)
def _handed_on(piece: Piece) -> Outputs:
    return as_output(piece, piece.name(0))


@ROWS.row("TransData", source=ARRAY)
def _trans_data(piece: Piece) -> Outputs:
    """Blocks of device layouts are undone on both sides, so that only plain axes are moved."""
    here, there = layout(piece), output_layout(piece)
    value = piece.name(0)
    if piece.rank(0) == len(here) and here != there and sorted(here) == sorted(there):
        value = piece.transpose(value, *(here.index(axis) for axis in there))
    return as_output(piece, value)


@ROWS.row("Cast", source=ARRAY)
def _cast(piece: Piece) -> Outputs:
    declared = piece.op.outputs[0].dtype
    kind = None if declared is None else declared.numpy
    if kind is None:
        raise NotTranslatedError("Cast to a type that is not known")
    kind = np.dtype(kind)
    value = piece.name(0)
    # Rounding to halves is the device's arithmetic, which is imitated by itself.
    return [
        piece.cast(
            value, np.float32 if kind.itemsize <= np.float16().nbytes and kind.kind == "f" else kind
        )
    ]


@ROWS.row("Transpose", "TransposeD", source=ARRAY)
def _transpose(piece: Piece) -> Outputs:
    return [piece.transpose(piece.name(0), *axes_of(piece, "perm", 1))]


@ROWS.row("Shape", "ShapeN", source=ARRAY)
def _shape(piece: Piece) -> Outputs:
    for at in range(len(piece)):
        piece.name(at)
    kinds = [tensor.dtype.numpy if tensor.dtype else np.int32 for tensor in piece.op.outputs]
    return [
        piece.cast(piece.const(np.array(piece.shape(at), np.int64)), kind)
        for at, kind in enumerate(kinds[: len(piece)])
    ]


@ROWS.row("Size", "Rank", source=ARRAY)
def _count(piece: Piece) -> Outputs:
    shape = piece.shape(0)
    value = len(shape) if piece.op.type == "Rank" else int(np.prod(shape))
    return [piece.const(np.array(value, np.int32))]


@ROWS.row("Concat", "ConcatD", "ConcatV2", "ConcatV2D", source=ARRAY)
def _concat(piece: Piece) -> Outputs:
    kind = piece.op.type
    axis_attr = piece.op.attrs.get("concat_dim")
    if axis_attr is not None:
        places, axis = range(len(piece)), integers(axis_attr)[0]
    elif kind == "Concat":
        places, axis = range(1, len(piece)), piece.integers(0)[0]
    else:
        places, axis = range(len(piece) - 1), piece.integers(len(piece) - 1)[0]
    return [piece.add("Concat", *alike(piece, *places), axis=axis)]


@ROWS.row("Split", "SplitD", "SplitV", "SplitVD", source=ARRAY)
def _split(piece: Piece) -> Outputs:
    at = 1 if piece.op.type == "Split" and "split_dim" not in piece.op.attrs else 0
    axis = axes_of(piece, "split_dim", 0 if at else len(piece) - 1)[0]
    sizes = [output_shape(piece, port)[axis] for port in range(len(piece.op.outputs))]
    return piece.add_many("Split", len(sizes), piece.name(at), piece.ints(*sizes), axis=axis)


@ROWS.row("Pack", source=ARRAY)
def _pack(piece: Piece) -> Outputs:
    axis = int(piece.attr("axis", 0))
    names = alike(piece, *range(len(piece)))
    wider = [piece.add("Unsqueeze", name, piece.ints(axis)) for name in names]
    return [piece.add("Concat", *wider, axis=axis)]


@ROWS.row("Unpack", source=ARRAY)
def _unpack(piece: Piece) -> Outputs:
    axis, count = int(piece.attr("axis", 0)), len(piece.op.outputs)
    parts = piece.add_many("Split", count, piece.name(0), axis=axis, num_outputs=count)
    return [piece.add("Squeeze", part, piece.ints(axis)) for part in parts]


@ROWS.row("StridedSlice", "StridedSliceD", source=ARRAY)
def _strided_slice(piece: Piece) -> Outputs:
    begin, end = axes_of(piece, "begin", 1), axes_of(piece, "end", 2)
    has_strides = "strides" in piece.op.attrs or len(piece) > len(("x", "begin", "end"))
    strides = axes_of(piece, "strides", 3) if has_strides else (1,) * len(begin)
    masks = [int(piece.attr(f"{name}_mask", 0)) for name in _MASKS]
    at_begin, at_end, ellipsis, new, shrunk = masks
    if ellipsis or new:
        raise NotTranslatedError("StridedSlice with an ellipsis or new axes")
    starts, ends = list(begin), list(end)
    for axis, step in enumerate(strides):
        if at_begin >> axis & 1:
            starts[axis] = 0 if step > 0 else _LAST
        if shrunk >> axis & 1:
            ends[axis] = begin[axis] + 1 or _LAST
        elif at_end >> axis & 1:
            ends[axis] = _LAST if step > 0 else -_LAST
    slice_of_input = piece.add(
        "Slice",
        piece.name(0),
        piece.ints(*starts),
        piece.ints(*ends),
        piece.ints(*range(len(starts))),
        piece.ints(*strides),
    )
    return as_output(piece, slice_of_input)


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
_LAST = np.iinfo(np.int64).max


@ROWS.row("Slice", "SliceD", source=ARRAY)
def _slice(piece: Piece) -> Outputs:
    starts = axes_of(piece, "offsets", 1)
    sizes = axes_of(piece, "size", 2)
    ends = [_LAST if size < 0 else start + size for start, size in zip(starts, sizes, strict=True)]
    return [piece.add("Slice", piece.name(0), piece.ints(*starts), piece.ints(*ends))]


@ROWS.row("Tile", "TileD", source=ARRAY)
def _tile(piece: Piece) -> Outputs:
    return [piece.add("Tile", piece.name(0), piece.ints(*axes_of(piece, "multiples", 1)))]


@ROWS.row("BroadcastTo", "BroadcastToD", source=ARRAY)
def _broadcast(piece: Piece) -> Outputs:
    return [piece.add("Expand", piece.name(0), piece.ints(*output_shape(piece)))]


@ROWS.row("Gather", "GatherV2", "GatherV2D", source=ARRAY)
def _gather(piece: Piece) -> Outputs:
    has_axis = piece.op.type == "GatherV2"
    axis = piece.integers(2)[0] if has_axis else int(piece.attr("axis", 0))
    if int(piece.attr("batch_dims", 0)):
        raise NotTranslatedError(f"{piece.op.type} with batch dimensions")
    return [piece.add("Gather", piece.name(0), piece.name(1), axis=axis)]


@ROWS.row("GatherNd", source=ARRAY)
def _gather_nd(piece: Piece) -> Outputs:
    places = piece.cast(piece.name(1), np.int64)
    return [piece.add("GatherND", piece.name(0), places)]


@ROWS.row("Pad", "PadD", source=ARRAY)
def _pad(piece: Piece) -> Outputs:
    attr = piece.op.attrs.get("paddings")
    if isinstance(attr, tuple):
        flat = [integer for pair in attr for integer in integers(pair)]
    else:
        piece.name(1)
        flat = list(piece.integers(1))
    pads = piece.ints(*flat[0::2], *flat[1::2])
    return [piece.add("Pad", piece.name(0), pads)]


@ROWS.row("OneHot", "OneHotD", source=ARRAY)
def _one_hot(piece: Piece) -> Outputs:
    is_dynamic = piece.op.type == "OneHot"
    axis = int(piece.attr("axis", -1))
    depth = piece.integers(1)[0] if is_dynamic else int(piece.attr("depth"))
    on, off = alike(piece, *((2, 3) if is_dynamic else (1, 2)))
    flat = [piece.reshape(value_name, (1,)) for value_name in (off, on)]
    values = piece.add("Concat", *flat, axis=0)
    places = piece.cast(piece.name(0), np.int64)
    return [piece.add("OneHot", places, np.array(depth), values, axis=axis)]


@ROWS.row("DepthToSpace", "SpaceToDepth", source=ARRAY)
def _depth_and_space(piece: Piece) -> Outputs:
    here = four_axes(layout(piece), str(piece.attr("data_format", "NHWC")))
    value = piece.transpose(piece.name(0), *(here.index(axis) for axis in "NCHW"))
    size = int(piece.attr("block_size"))
    if piece.op.type == "DepthToSpace":
        mode = str(piece.attr("mode", "DCR"))
        result = piece.add("DepthToSpace", value, blocksize=size, mode=mode)
    else:
        result = piece.add("SpaceToDepth", value, blocksize=size)
    return [piece.transpose(result, *("NCHW".index(axis) for axis in here))]


@ROWS.row("Range", "RangeD", source=ARRAY)
def _range(piece: Piece) -> Outputs:
    if piece.op.type == "RangeD":  # its input helps the kernel to count
        ends = (float(piece.attr(name)) for name in ("start", "limit", "delta"))
        return [piece.const(np.arange(*ends, dtype=piece.dtype(0)))]
    return [piece.add("Range", *(piece.reshape(operand, ()) for operand in alike(piece, 0, 1, 2)))]


@ROWS.row("ReadSelect", source=ARRAY)
def _read_select(piece: Piece) -> Outputs:
    """Reads every ``stride_list``-th place of its input, or all of it."""
    if len(piece) > 1:
        raise NotTranslatedError("ReadSelect fused with the ops that read it")
    strides = integers(piece.op.attrs.get("stride_list"))
    axes = {"H": strides[-3], "W": strides[-2]} if len(strides) == len("NCHWc") else {}
    here, value = four_axes(layout(piece)), piece.name(0)
    if any(step != 1 for step in axes.values()):
        places = [here.index(axis) for axis in axes]
        zero, last_places = (0,) * len(places), (_LAST,) * len(places)
        value = piece.add(
            *("Slice", value, piece.ints(*zero), piece.ints(*last_places)),
            *(piece.ints(*places), piece.ints(*axes.values())),
        )
    return as_output(piece, value)


# Ops that put values in other places: segments, sorted and reversed ones, resized pictures.


@ROWS.row("ReverseV2", "ReverseV2D", source=ARRAY)
def _reversed(piece: Piece) -> Outputs:
    axes = axes_of(piece, "axis", 1)
    ones = (1,) * len(axes)
    return [
        piece.add(
            "Slice",
            piece.name(0),
            piece.ints(*(-factor for factor in ones)),
            piece.ints(*(-_LAST for _ in ones)),
            piece.ints(*axes),
            piece.ints(*(-factor for factor in ones)),
        )
    ]


@ROWS.row("UnsortedSegmentSum", "UnsortedSegmentSumD", source=ARRAY)
def _segments(piece: Piece) -> Outputs:
    shape, kind = output_shape(piece), piece.dtype(0)
    rank = piece.rank(1)
    ids = piece.cast(piece.name(1), np.int64)
    last = piece.add("Unsqueeze", ids, piece.ints(rank))
    zeros = piece.add("Expand", piece.const(np.array(0, kind)), piece.ints(*shape))
    return [piece.add("ScatterND", zeros, last, piece.name(0), reduction="add")]


@ROWS.row(
    *("ResizeNearestNeighborV2", "ResizeNearestNeighborV2D"),
    *("ResizeBilinearV2", "ResizeBilinearV2D"),
    source=ARRAY,
)
def _resized(piece: Piece) -> Outputs:
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
    value = to_layout(piece, piece.name(0), here, "NCHW")
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
def _upsampled(piece: Piece) -> Outputs:
    here = four_axes(layout(piece))
    steps = {"H": int(piece.attr("stride_h", 2)), "W": int(piece.attr("stride_w", 2))}
    scales = np.array([steps.get(axis, 1) for axis in "NCHW"], np.float32)
    value = to_layout(piece, piece.name(0), here, "NCHW")
    result = piece.add(
        *("Resize", value, None, scales),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    factor = float(piece.attr("scale", 1.0))
    result = result if factor == 1.0 else (result * factor)
    return [to_layout(piece, result, "NCHW", here)]


@ROWS.row("TopK", "TopKV2", "TopKD", source=ARRAY)
def _largest(piece: Piece) -> Outputs:
    """Of equal values the one that comes first."""
    if not piece.attr("sorted", True):
        raise NotTranslatedError(f"{piece.op.type} in any order")
    has_attr = piece.op.type == "TopKD"
    count = int(piece.attr("k")) if has_attr else int(piece.value(1).reshape(-1)[0])
    axis, largest = int(piece.attr("dim", -1)), int(bool(piece.attr("largest", True)))
    operands = (piece.name(0), piece.ints(count))
    values, places = piece.add_many("TopK", 2, *operands, axis=axis, largest=largest)
    return [values, piece.cast(places, np.int32)]


@ROWS.row("Unique", "UniqueWithCounts", source=ARRAY)
def _unique(piece: Piece) -> Outputs:
    """The values in the order in which they come first, and for each element its place there."""
    kind, value = piece.dtype(0), piece.name(0)
    is_integer = kind.kind in "iu"
    results = piece.add_many(
        "Unique", 4, piece.cast(value, np.int64) if is_integer else value, sorted=0
    )
    values = piece.cast(results[0], kind) if is_integer else results[0]
    return [values, results[2], results[3]][: len(piece.op.outputs)]
