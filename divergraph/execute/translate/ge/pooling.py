"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.convolution import along_space, axes, height_and_width
from divergraph.execute.translate.ge.table import (
    POOL,
    ROWS,
    four_axes,
    integers,
    layout,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.windows import SlidingWindows, put_back

_WINDOW = ("ksize", "kernel_size", "window")
_STRIDES = ("strides", "stride")
_LEAST = float(np.finfo(np.float32).min)


def _height_and_width(piece: Piece, here: str, names: tuple[str, ...], at: int) -> tuple[int, int]:
    """An attribute along height and width; in MaxPoolV2 it is input *at*."""
    pair = along_space(piece.op, names, here)
    if pair is None and piece.op.type == "MaxPoolV2":
        piece.name(at)
        pair = height_and_width(piece.integers(at), here)
    if pair is None:
        raise NotTranslatedError(f"{piece.op.type} whose graph gives no {names[-1]}")
    return pair


def _windows(piece: Piece, here: str, sizes: Sequence[int], outs: Sequence[int]) -> SlidingWindows:
    """The windows of a pooling op over *sizes* (H, W), of which there are *outs*."""
    kernel = _height_and_width(piece, here, _WINDOW, 1)
    strides = _height_and_width(piece, here, _STRIDES, 2)
    padding = str(piece.attr("padding", piece.attr("padding_mode", "")))
    pads = integers(piece.op.attrs.get("pads", piece.op.attrs.get("pad")))
    if padding in ("SAME", "VALID") or len(pads) != len("NCHW"):
        total = [
            max((out - 1) * stride + k - size, 0) if padding == "SAME" else 0
            for out, stride, k, size in zip(outs, strides, kernel, sizes, strict=True)
        ]
        begin: tuple[int, ...] = (total[0] // 2, total[1] // 2)
        end: tuple[int, ...] = (total[0] - begin[0], total[1] - begin[1])
    else:
        begin, end = pads[::2], pads[1::2]
    return SlidingWindows(kernel, strides, (1, 1), begin, end, tuple(outs))


def _space(order: str, shape: Sequence[int]) -> list[int]:
    return [shape[order.index("H")], shape[order.index("W")]]


def _excludes(piece: Piece) -> bool:
    """Whether padding does not count in an average."""
    return bool(piece.attr("exclusive", piece.attr("padding", "") == "SAME"))


@ROWS.row("MaxPool", "MaxPoolV2", "MaxPoolV3", "AvgPool", "AvgPoolV2", "Pooling", source=POOL)
def _pool(piece: Piece) -> Outputs:
    here = axes(piece, 0)
    there = four_axes(output_layout(piece), here)
    value = to_layout(piece, piece.name(0), here, "NCHW")
    sizes, outs = _space(here, piece.shape(0)), _space(there, output_shape(piece))
    mode = int(piece.attr("mode", 0)) if piece.op.type == "Pooling" else 1
    is_max = piece.op.type.startswith("Max") or mode == 0
    if piece.attr("global_pooling", False):
        result = piece.add("GlobalMaxPool" if is_max else "GlobalAveragePool", value)
        return [to_layout(piece, result, "NCHW", there)]
    over = _windows(piece, here, sizes, outs)
    beyond = _beyond(over, sizes)
    if is_max:
        if any((*over.pads, *beyond)):
            value = _padded(piece, value, over, beyond, _LEAST)
        result = piece.add("MaxPool", value, kernel_shape=over.size, strides=over.strides)
    else:
        # Sums over windows by the number of places that count: all within the input and, unless
        # the op excludes it, its padding; never what lies behind that.
        value = _padded(piece, value, over, beyond, 0.0)
        result = piece.add("AveragePool", value, kernel_shape=over.size, strides=over.strides)
        shares = _shares(over, sizes, piece.op.type.startswith("Avg") and _excludes(piece))
        result = result * np.asarray(shares, np.float32)
    return [to_layout(piece, result, "NCHW", there)]


def _beyond(over: SlidingWindows, sizes: Sequence[int]) -> list[int]:
    """How far windows reach behind the padded input where the number of outputs is rounded up."""
    return [
        (out - 1) * stride + k - size - before - after
        for out, stride, k, size, before, after in zip(
            over.out, over.strides, over.size, sizes, over.begin, over.end, strict=True
        )
    ]


def _padded(
    piece: Piece, value: Expr, over: SlidingWindows, beyond: Sequence[int], filling: float
) -> Expr:
    """The input with its padding; windows that would end before its end see it cut."""
    ends = (size + more for size, more in zip(over.end, beyond, strict=True))
    pads = piece.ints(0, 0, *over.begin, 0, 0, *ends)
    return piece.add("Pad", value, pads, np.array(filling, np.float32))


def _shares(over: SlidingWindows, sizes: Sequence[int], excludes: bool) -> np.ndarray:
    """By output place: the places of a window over those of them that count."""
    counts = []
    for axis, size in enumerate(sizes):
        start = 0 if excludes else -over.begin[axis]
        end = size + (0 if excludes else over.end[axis])
        first = np.arange(over.out[axis]) * over.strides[axis] - over.begin[axis]
        counts.append(np.minimum(first + over.size[axis], end) - np.maximum(first, start))
    return np.asarray(over.size[0] * over.size[1] / np.maximum(np.outer(*counts), 1))


@ROWS.row("MaxPoolGrad", "AvgPoolGrad", "AvgPoolGradD", source=POOL)
def _pool_gradient(piece: Piece) -> Outputs:
    is_max = piece.op.type == "MaxPoolGrad"
    at = 2 if is_max else len(piece) - 1
    here = axes(piece, at)
    there = four_axes(output_layout(piece), here)
    sizes, outs = _space(there, output_shape(piece)), _space(here, piece.shape(at))
    over = _windows(piece, there, sizes, outs)
    gradient = to_layout(piece, piece.name(at), here, "NCHW")
    if is_max:
        value = to_layout(piece, piece.name(0), four_axes(layout(piece, 0), there), "NCHW")
        result = _to_maxima(piece, value, gradient, over, sizes)
    else:
        shares = _shares(over, sizes, _excludes(piece)) / (over.size[0] * over.size[1])
        result = _spread(piece, gradient * np.asarray(shares, np.float32), over, sizes)
    return [to_layout(piece, result, "NCHW", there)]


def _spread(piece: Piece, gradient: Expr, over: SlidingWindows, sizes: Sequence[int]) -> Expr:
    """Each value added to all places of its window: channels are moved into the batch."""
    batch = piece.add("Shape", gradient, start=0, end=2)
    alone = piece.reshape(gradient, (-1, 1, *over.out))
    ones = piece.const(np.ones((1, 1, *over.size), np.float32))
    result = put_back(piece, alone, ones, over, sizes, 1)
    return piece.add("Reshape", result, piece.add("Concat", batch, piece.ints(*sizes), axis=0))


def _to_maxima(
    piece: Piece, value: Expr, gradient: Expr, over: SlidingWindows, sizes: Sequence[int]
) -> Expr:
    """Each value of the gradient at the first place of its window that holds the maximum."""
    beyond = _beyond(over, sizes)
    padded = _padded(piece, value, over, beyond, _LEAST)
    full = [sum(each) for each in zip(sizes, over.begin, over.end, beyond, strict=True)]
    shape = piece.add("Shape", padded, start=0, end=2)
    flat = piece.reshape(padded, (-1, 1, *full))
    _, places = piece.add_many("MaxPool", 2, flat, kernel_shape=over.size, strides=over.strides)
    # ONNX counts places through the whole tensor, plane after plane, as ScatterElements needs it.
    zeros = piece.add("Flatten", flat, axis=0) * np.array(0.0, np.float32)
    flattened = (piece.add("Flatten", each, axis=0) for each in (places, gradient))
    filled = piece.add("ScatterElements", zeros, *flattened, axis=1, reduction="add")
    full_shape = piece.add("Concat", shape, piece.ints(*full), axis=0)
    result = piece.add("Reshape", filled, full_shape)
    ends = (begin + size for begin, size in zip(over.begin, sizes, strict=True))
    return piece.add("Slice", result, piece.ints(*over.begin), piece.ints(*ends), piece.ints(2, 3))
