"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.fused.tails import TAIL, with_tail
from divergraph.execute.translate.ge.geometry import Geometry, geometry
from divergraph.execute.translate.ge.table import (
    NN,
    ROWS,
    four_axes,
    layout,
    needed,
    optional,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.windows import put_back, seen_by_filters

FILTER = "_filter_layout"
"""The attribute that says in which order the axes of a filter are, where its layout does not."""


def axes(piece: Piece, at: int) -> str:
    """The order of the four axes of an input that is no filter."""
    return four_axes(layout(piece, at), str(piece.attr("data_format", "NCHW")))


def filter_axes(piece: Piece, at: int) -> str:
    """The order of a filter's axes: N are its outputs, C its inputs."""
    filter_layout = piece.op.attrs.get(FILTER)
    return four_axes(str(filter_layout) if filter_layout else layout(piece, at))


@ROWS.row("Conv2D", "Convolution", source=NN)
def _conv(piece: Piece) -> Sequence[str]:
    needed(piece, 0)
    if piece.rank(0) != len("NCHW"):
        raise NotTranslatedError(f"{piece.op.type} of {piece.rank(0)} axes")
    here = axes(piece, 0)
    value = to_layout(piece, needed(piece, 0), here, "NCHW")
    result = _plain(piece, value, oihw(piece, 1), geometry(piece, here), bias(piece, 2))
    result = with_tail(piece, result, "NCHW")
    return [to_layout(piece, result, "NCHW", four_axes(output_layout(piece), here))]


@ROWS.row("DepthwiseConv2D", "DepthwiseConv2DD", source=NN)
def _depthwise(piece: Piece) -> Sequence[str]:
    here = axes(piece, 0)
    value = to_layout(piece, needed(piece, 0), here, "NCHW")
    channels = piece.shape(0)[here.index("C")]
    result = _plain(
        piece, value, depth_filter(piece, 1), geometry(piece, here), bias(piece, 2), channels
    )
    result = with_tail(piece, result, "NCHW")
    return [to_layout(piece, result, "NCHW", four_axes(output_layout(piece), here))]


def depth_filter(piece: Piece, at: int) -> str:
    """A filter of one input and M outputs a channel, as a grouped convolution takes it: TensorFlow
    has H, W, C, M; GE's FRACTAL_Z of depthwise filters comes as C·M, 1, H, W."""
    order = filter_axes(piece, at)
    moved = to_layout(piece, needed(piece, at), order, "NCHW")
    shape = dict(zip(order, piece.shape(at), strict=True))
    if shape["C"] == 1:
        return moved
    # HWCN is H, W, C, M there: its outputs run with M fastest.
    swapped = piece.transpose(moved, 1, 0, 2, 3)
    return piece.reshape(swapped, (shape["C"] * shape["N"], 1, shape["H"], shape["W"]))


def oihw(piece: Piece, at: int) -> str:
    """A filter in the order in which ONNX has it."""
    return to_layout(piece, needed(piece, at), filter_axes(piece, at), "NCHW")


def bias(piece: Piece, at: int) -> str | None:
    """The bias as a flat list, None where the op has none."""
    bias_name = optional(piece, at)
    if bias_name is None:
        return None
    kind = np.dtype(np.int32 if piece.dtype(0).kind in "iu" else np.float32)
    if piece.dtype(at) != kind:
        bias_name = piece.cast(bias_name, kind)
    return piece.reshape(bias_name, (-1,))


def _plain(
    piece: Piece,
    value: str,
    weight: str,
    shape: Geometry,
    added: str | None,
    groups: int | None = None,
) -> str:
    settings: dict[str, Any] = {
        "strides": shape.strides,
        "pads": shape.pads,
        "dilations": shape.dilations,
    }
    groups = groups or int(piece.attr("groups", 1))
    if piece.dtype(0).kind not in "iu":
        return piece.add("Conv", value, weight, added, group=groups, **settings)
    # Products of 8-bit integers are added up in integers; ONNX Runtime takes the data without sign.
    middle = np.array(128 if piece.dtype(0).kind == "i" else 0, np.uint8)
    raised = piece.add("Add", piece.cast(value, np.int32), middle.astype(np.int32))
    data = piece.cast(raised, np.uint8)
    result = piece.add("ConvInteger", data, weight, middle, group=groups, **settings)
    if added is not None:
        result = piece.add("Add", result, piece.reshape(added, (1, -1, 1, 1)))
    return piece.cast(result, np.float32) if piece.op.attrs.get(TAIL) else result


@ROWS.row("Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DTransposeD", source=NN)
def _input_gradient(piece: Piece) -> Sequence[str]:
    weight, gradient = _gradient_inputs(piece)
    if piece.op.type == "Conv2DTransposeD":
        weight, gradient = 1, 0
    here = axes(piece, gradient)
    there = four_axes(output_layout(piece), here)
    small = dict(zip(here, piece.shape(gradient), strict=True))
    large = dict(zip(there, output_shape(piece), strict=True))
    sizes = (large["H"], large["W"])
    over = geometry(piece, there).over(filter_size(piece, weight), (small["H"], small["W"]))
    if any(
        map(
            _is_short,
            sizes,
            over.size,
            over.strides,
            over.dilations,
            over.begin,
            over.end,
            over.out,
        )
    ):
        raise NotTranslatedError("a gradient larger than its convolution makes")
    value = to_layout(piece, needed(piece, gradient), here, "NCHW")
    groups = int(piece.attr("groups", 1))
    result = put_back(piece, value, oihw(piece, weight), over, sizes, groups)
    if piece.op.type == "Conv2DTransposeD" and (added := bias(piece, 2)) is not None:
        result = piece.add("Add", result, piece.reshape(added, (1, -1, 1, 1)))
    return [to_layout(piece, with_tail(piece, result, "NCHW"), "NCHW", there)]


def filter_size(piece: Piece, at: int) -> tuple[int, int]:
    """The height and width of a filter."""
    sizes = dict(zip(filter_axes(piece, at), piece.shape(at), strict=True))
    return sizes["H"], sizes["W"]


def _is_short(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, out: int
) -> bool:
    """Whether so many windows do not fit in an image of *size* with its padding."""
    return (out - 1) * stride + dilation * (kernel - 1) + 1 > size + begin + end


def _gradient_inputs(piece: Piece) -> tuple[int, int]:
    """The places of filter and gradient: the variants D have no input for the size."""
    return (1, 2) if len(piece) > SIZELESS else (0, 1)


SIZELESS = 2
"""Inputs of a gradient whose size is an attribute."""


@ROWS.row("Conv2DBackpropFilter", "Conv2DBackpropFilterD", source=NN)
def _filter_gradient(piece: Piece) -> Sequence[str]:
    at = 2 if len(piece) > SIZELESS else 1
    here, there = axes(piece, 0), axes(piece, at)
    if int(piece.attr("groups", 1)) != 1:
        raise NotTranslatedError(f"{piece.op.type} of several groups")
    order = four_axes(str(piece.op.attrs.get(FILTER) or output_layout(piece)))
    sizes = dict(zip(order, output_shape(piece), strict=True))
    small = dict(zip(there, piece.shape(at), strict=True))
    over = geometry(piece, here).over((sizes["H"], sizes["W"]), (small["H"], small["W"]))
    value = to_layout(piece, needed(piece, 0), here, "CNHW")
    gradient = to_layout(piece, needed(piece, at), there, "CNHW")
    gradient_of_filters = seen_by_filters(piece, value, gradient, over, 1)
    return [to_layout(piece, gradient_of_filters, "CNHW", order)]
