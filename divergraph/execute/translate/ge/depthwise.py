"""The gradients of convolutions of each channel by itself."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.ge.convolution import (
    SIZELESS,
    axes,
    depth_filter,
    filter_axes,
    filter_size,
)
from divergraph.execute.translate.ge.geometry import geometry
from divergraph.execute.translate.ge.table import (
    NN,
    ROWS,
    four_axes,
    needed,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.windows import put_back, seen_by_filters


def _space(order: str, shape: Sequence[int]) -> tuple[int, int]:
    return shape[order.index("H")], shape[order.index("W")]


@ROWS.row("DepthwiseConv2DBackpropInput", "DepthwiseConv2DBackpropInputD", source=NN)
def _by_input(piece: Piece) -> Sequence[str]:
    weight, gradient = (1, 2) if len(piece) > SIZELESS else (0, 1)
    here = axes(piece, gradient)
    there = four_axes(output_layout(piece), here)
    sizes = _space(there, output_shape(piece))
    over = geometry(piece, there).over(
        filter_size(piece, weight), _space(here, piece.shape(gradient))
    )
    value = to_layout(piece, needed(piece, gradient), here, "NCHW")
    channels = output_shape(piece)[there.index("C")]
    gradient_of_input = put_back(piece, value, depth_filter(piece, weight), over, sizes, channels)
    return [to_layout(piece, gradient_of_input, "NCHW", there)]


@ROWS.row("DepthwiseConv2DBackpropFilter", "DepthwiseConv2DBackpropFilterD", source=NN)
def _by_filter(piece: Piece) -> Sequence[str]:
    at = 2 if len(piece) > SIZELESS else 1
    here, there = axes(piece, 0), axes(piece, at)
    order = four_axes(output_layout(piece), filter_axes(piece, 0))
    kernel = _space(order, output_shape(piece))
    over = geometry(piece, here).over(kernel, _space(there, piece.shape(at)))
    batch, channels = piece.shape(0)[here.index("N")], piece.shape(0)[here.index("C")]
    many = piece.shape(at)[there.index("C")] // channels
    value = to_layout(piece, needed(piece, 0), here, "CNHW")
    value = piece.reshape(value, (1, channels * batch, *_space(here, piece.shape(0))))
    gradient = to_layout(piece, needed(piece, at), there, "CNHW")
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
