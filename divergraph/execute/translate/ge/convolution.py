"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.fused import TAIL, with_tail
from divergraph.execute.translate.ge.table import (
    NN,
    ROWS,
    four_axes,
    integers,
    layout,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters
from graphstore.model import AttrValue, Op

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
def _conv(piece: Piece) -> Outputs:
    piece.name(0)
    if piece.rank(0) != len("NCHW"):
        raise NotTranslatedError(f"{piece.op.type} of {piece.rank(0)} axes")
    here = axes(piece, 0)
    value = to_layout(piece, piece.name(0), here, "NCHW")
    result = _plain(piece, value, oihw(piece, 1), geometry(piece, here), bias(piece, 2))
    result = with_tail(piece, result, "NCHW")
    return [to_layout(piece, result, "NCHW", four_axes(output_layout(piece), here))]


@ROWS.row("DepthwiseConv2D", "DepthwiseConv2DD", source=NN)
def _depthwise(piece: Piece) -> Outputs:
    here = axes(piece, 0)
    value = to_layout(piece, piece.name(0), here, "NCHW")
    channels = piece.shape(0)[here.index("C")]
    result = _plain(
        piece, value, depth_filter(piece, 1), geometry(piece, here), bias(piece, 2), channels
    )
    result = with_tail(piece, result, "NCHW")
    return [to_layout(piece, result, "NCHW", four_axes(output_layout(piece), here))]


def depth_filter(piece: Piece, at: int) -> Expr:
    """A filter of one input and M outputs a channel, as a grouped convolution takes it: TensorFlow
    has H, W, C, M; GE's FRACTAL_Z of depthwise filters comes as C·M, 1, H, W."""
    order = filter_axes(piece, at)
    moved = to_layout(piece, piece.name(at), order, "NCHW")
    shape = dict(zip(order, piece.shape(at), strict=True))
    if shape["C"] == 1:
        return moved
    # HWCN is H, W, C, M there: its outputs run with M fastest.
    swapped = piece.transpose(moved, 1, 0, 2, 3)
    return piece.reshape(swapped, (shape["C"] * shape["N"], 1, shape["H"], shape["W"]))


def oihw(piece: Piece, at: int) -> Expr:
    """A filter in the order in which ONNX has it."""
    return to_layout(piece, piece.name(at), filter_axes(piece, at), "NCHW")


def bias(piece: Piece, at: int) -> Expr | None:
    """The bias as a flat list, None where the op has none."""
    bias_name = piece.optional(at)
    if bias_name is None:
        return None
    kind = np.dtype(np.int32 if piece.dtype(0).kind in "iu" else np.float32)
    if piece.dtype(at) != kind:
        bias_name = piece.cast(bias_name, kind)
    return piece.reshape(bias_name, (-1,))


def _plain(
    piece: Piece,
    value: Expr,
    weight: Expr,
    shape: Geometry,
    added: Expr | None,
    groups: int | None = None,
) -> Expr:
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
    raised = piece.cast(value, np.int32) + middle.astype(np.int32)
    data = piece.cast(raised, np.uint8)
    result = piece.add("ConvInteger", data, weight, middle, group=groups, **settings)
    if added is not None:
        result = result + piece.reshape(added, (1, -1, 1, 1))
    return piece.cast(result, np.float32) if piece.op.attrs.get(TAIL) else result


@ROWS.row("Conv2DBackpropInput", "Conv2DBackpropInputD", "Conv2DTransposeD", source=NN)
def _input_gradient(piece: Piece) -> Outputs:
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
    value = to_layout(piece, piece.name(gradient), here, "NCHW")
    groups = int(piece.attr("groups", 1))
    result = put_back(piece, value, oihw(piece, weight), over, sizes, groups)
    if piece.op.type == "Conv2DTransposeD" and (added := bias(piece, 2)) is not None:
        result = result + piece.reshape(added, (1, -1, 1, 1))
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
def _filter_gradient(piece: Piece) -> Outputs:
    at = 2 if len(piece) > SIZELESS else 1
    here, there = axes(piece, 0), axes(piece, at)
    if int(piece.attr("groups", 1)) != 1:
        raise NotTranslatedError(f"{piece.op.type} of several groups")
    order = four_axes(str(piece.op.attrs.get(FILTER) or output_layout(piece)))
    sizes = dict(zip(order, output_shape(piece), strict=True))
    small = dict(zip(there, piece.shape(at), strict=True))
    over = geometry(piece, here).over((sizes["H"], sizes["W"]), (small["H"], small["W"]))
    value = to_layout(piece, piece.name(0), here, "CNHW")
    gradient = to_layout(piece, piece.name(at), there, "CNHW")
    gradient_of_filters = seen_by_filters(piece, value, gradient, over, 1)
    return [to_layout(piece, gradient_of_filters, "CNHW", order)]


# Strides, paddings and dilations of windows, as GE's ops say them.


_BOTH = 2


@dataclass(frozen=True, slots=True)
class Geometry:
    """Along height and width; ``pads`` are top, left, bottom, right, as ONNX has them."""

    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int] = (1, 1)

    def over(self, kernel: tuple[int, int], outs: Sequence[int]) -> SlidingWindows:
        """Windows of size *kernel* that make *outs* rows and columns."""
        begin, end = self.pads[:_BOTH], self.pads[_BOTH:]
        return SlidingWindows(kernel, self.strides, self.dilations, begin, end, tuple(outs))


def geometry(piece: Piece, axes: str) -> Geometry:
    """The geometry of an op whose tensor's axes are in this order.

    Raises:
        NotTranslatedError: strides or paddings are not in the graph.
    """
    op = piece.op
    strides = along_space(op, ("strides", "stride"), axes)
    pads = integers(op.attrs.get("pads", op.attrs.get("pad")))
    if strides is None or len(pads) not in (2, 4):
        raise NotTranslatedError(f"{op.type} whose graph gives no strides or paddings")
    top, bottom, left_pad, right = pads if len(pads) != _BOTH else (pads[0],) * 2 + (pads[1],) * 2
    if min(pads) < 0:
        raise NotTranslatedError(f"{op.type} whose paddings are found at run time")
    dilations = along_space(op, ("dilations", "dilation"), axes) or (1, 1)
    return Geometry(strides, (top, left_pad, bottom, right), dilations)


def along_space(op: Op, names: tuple[str, ...], axes: str) -> tuple[int, int] | None:
    """An attribute of two numbers, or of one for each axis, along height and width; GE gives it in
    the order of the original tensor, whatever ``data_format`` says."""
    settings = (height_and_width(integers(op.attrs.get(name)), axes) for name in names)
    return next((setting for setting in settings if setting is not None), None)


def height_and_width(numbers: tuple[int, ...], axes: str) -> tuple[int, int] | None:
    """What one number, two, or one for each axis say of height and width; None if they do not."""
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    if len(numbers) == _BOTH:
        return numbers[0], numbers[1]
    if len(numbers) != len(axes):
        return None
    by_axis = dict(zip(axes, numbers, strict=True))
    if by_axis["N"] != 1 or by_axis["C"] != 1:
        other = dict(zip("NCHW" if axes != "NCHW" else "NHWC", numbers, strict=True))
        by_axis = other if other["N"] == other["C"] == 1 else by_axis
    return by_axis["H"], by_axis["W"]


def fitting(size: int, kernel: int, out: int) -> Iterator[tuple[int, int, int]]:
    """The strides and paddings (before, after) by which a window of *kernel* makes *out* of *size*:
    as large as the output needs (SAME), none (VALID), or the same on both ends."""
    for stride in range(1, max(kernel, 2) + 1):
        if -(-size // stride) == out:
            total = max((out - 1) * stride + kernel - size, 0)
            yield stride, total // 2, total - total // 2
        for pad in range((kernel + 1) // 2):
            if size + 2 * pad >= kernel and (size + 2 * pad - kernel) // stride + 1 == out:
                yield stride, pad, pad


def square_geometries(
    sizes: Mapping[str, int], kernel: tuple[int, int], outs: Mapping[str, int]
) -> Iterator[dict[str, AttrValue]]:
    """The attributes that fit these sizes along H and W, each once: the smallest strides first, and
    the same along both where that fits."""
    high = list(dict.fromkeys(fitting(sizes["H"], kernel[0], outs["H"])))
    wide = list(dict.fromkeys(fitting(sizes["W"], kernel[1], outs["W"])))
    for one in high:
        for other in wide:
            if sizes["H"] == sizes["W"] and kernel[0] == kernel[1] and one != other:
                continue
            if one[0] == other[0]:
                pads = (one[1], one[2], other[1], other[2])
                yield {"strides": (one[0], other[0]), "pads": pads}


# The gradients of convolutions of each channel by itself.


def _space(order: str, shape: Sequence[int]) -> tuple[int, int]:
    return shape[order.index("H")], shape[order.index("W")]


@ROWS.row("DepthwiseConv2DBackpropInput", "DepthwiseConv2DBackpropInputD", source=NN)
def _by_input(piece: Piece) -> Outputs:
    weight, gradient = (1, 2) if len(piece) > SIZELESS else (0, 1)
    here = axes(piece, gradient)
    there = four_axes(output_layout(piece), here)
    sizes = _space(there, output_shape(piece))
    over = geometry(piece, there).over(
        filter_size(piece, weight), _space(here, piece.shape(gradient))
    )
    value = to_layout(piece, piece.name(gradient), here, "NCHW")
    channels = output_shape(piece)[there.index("C")]
    gradient_of_input = put_back(piece, value, depth_filter(piece, weight), over, sizes, channels)
    return [to_layout(piece, gradient_of_input, "NCHW", there)]


@ROWS.row("DepthwiseConv2DBackpropFilter", "DepthwiseConv2DBackpropFilterD", source=NN)
def _by_filter(piece: Piece) -> Outputs:
    at = 2 if len(piece) > SIZELESS else 1
    here, there = axes(piece, 0), axes(piece, at)
    order = four_axes(output_layout(piece), filter_axes(piece, 0))
    kernel = _space(order, output_shape(piece))
    over = geometry(piece, here).over(kernel, _space(there, piece.shape(at)))
    batch, channels = piece.shape(0)[here.index("N")], piece.shape(0)[here.index("C")]
    many = piece.shape(at)[there.index("C")] // channels
    value = to_layout(piece, piece.name(0), here, "CNHW")
    value = piece.reshape(value, (1, channels * batch, *_space(here, piece.shape(0))))
    gradient = to_layout(piece, piece.name(at), there, "CNHW")
    gradient_of_filters = seen_by_filters(piece, value, gradient, over, channels)
    # TensorFlow's order has the channels as C; that of blocks has all outputs as N.
    if output_shape(piece)[order.index("C")] == channels:
        return [
            to_layout(
                piece, piece.reshape(gradient_of_filters, (channels, many, *kernel)), "CNHW", order
            )
        ]
    return [
        to_layout(
            piece, piece.reshape(gradient_of_filters, (channels * many, 1, *kernel)), "NCHW", order
        )
    ]
