"""Pooling and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.convolution import axes
from divergraph.execute.translate.ge.geometry import Geometry, along_space, height_and_width
from divergraph.execute.translate.ge.table import (
    POOL,
    ROWS,
    four_axes,
    integers,
    layout,
    needed,
    output_layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.windows import put_back

_WINDOW = ("ksize", "kernel_size", "window")
_STRIDES = ("strides", "stride")


def _height_and_width(piece: Piece, here: str, names: tuple[str, ...], at: int) -> tuple[int, int]:
    """An attribute along height and width; in MaxPoolV2 it is input *at*."""
    pair = along_space(piece.op, names, here)
    if pair is None and piece.op.type == "MaxPoolV2":
        needed(piece, at)
        pair = height_and_width(piece.integers(at), here)
    if pair is None:
        raise NotTranslatedError(f"{piece.op.type} whose graph gives no {names[-1]}")
    return pair


def windows(
    piece: Piece, here: str, sizes: Sequence[int], outs: Sequence[int]
) -> tuple[tuple[int, int], Geometry]:
    """The window of a pooling op, and how it moves over *sizes* (H, W) to make *outs*."""
    kernel, strides = (
        _height_and_width(piece, here, _WINDOW, 1),
        _height_and_width(piece, here, _STRIDES, 2),
    )
    padding = str(piece.attr("padding", piece.attr("padding_mode", "")))
    pads = integers(piece.op.attrs.get("pads", piece.op.attrs.get("pad")))
    if padding in ("SAME", "VALID") or len(pads) != len("NCHW"):
        same = padding == "SAME"
        total = [
            max((out - 1) * stride + k - size, 0) if same else 0
            for out, stride, k, size in zip(outs, strides, kernel, sizes, strict=True)
        ]
        top, left_pad = total[0] // 2, total[1] // 2
        return kernel, Geometry(strides, (top, left_pad, total[0] - top, total[1] - left_pad))
    top, bottom, left_pad, right = pads
    return kernel, Geometry(strides, (top, left_pad, bottom, right))


def _space(order: str, shape: Sequence[int]) -> list[int]:
    return [shape[order.index("H")], shape[order.index("W")]]


@ROWS.row("MaxPool", "MaxPoolV2", "MaxPoolV3", "AvgPool", "AvgPoolV2", "Pooling", source=POOL)
def _pool(piece: Piece) -> Sequence[str]:
    here = axes(piece, 0)
    there = four_axes(output_layout(piece), here)
    value = to_layout(piece, needed(piece, 0), here, "NCHW")
    sizes, outs = _space(here, piece.shape(0)), _space(there, output_shape(piece))
    is_global = bool(piece.attr("global_pooling", False))
    is_max = piece.op.type.startswith("Max") or _mode(piece) == 0
    if is_global:
        result = piece.add("GlobalMaxPool" if is_max else "GlobalAveragePool", value)
        return [to_layout(piece, result, "NCHW", there)]
    kernel, moves = windows(piece, here, sizes, outs)
    excludes = piece.op.type.startswith("Avg") and bool(
        piece.attr("exclusive", piece.attr("padding", "") == "SAME")
    )
    result = (
        _maxima(piece, value, kernel, moves, sizes, outs)
        if is_max
        else _means(piece, value, kernel, moves, sizes, outs, excludes)
    )
    return [to_layout(piece, result, "NCHW", there)]


def _mode(piece: Piece) -> int:
    return int(piece.attr("mode", 0)) if piece.op.type == "Pooling" else 1


def _beyond(
    kernel: Sequence[int], moves: Geometry, sizes: Sequence[int], outs: Sequence[int]
) -> list[int]:
    """How far windows reach behind the padded input where the number of outputs is rounded up."""
    return [
        (out - 1) * stride + k - size - before - after
        for out, stride, k, size, before, after in zip(
            outs, moves.strides, kernel, sizes, moves.pads[:2], moves.pads[2:], strict=True
        )
    ]


def _padded(
    piece: Piece, value: str, moves: Geometry, beyond: Sequence[int], filling: float
) -> str:
    """The input with its padding; windows that would end before its end see it cut."""
    top, left_pad, bottom, right = moves.pads
    ends = (bottom + beyond[0], right + beyond[1])
    pads = piece.ints(0, 0, top, left_pad, 0, 0, *ends)
    return piece.add("Pad", value, pads, np.array(filling, np.float32))


def _maxima(
    piece: Piece,
    value: str,
    kernel: Sequence[int],
    moves: Geometry,
    sizes: Sequence[int],
    outs: Sequence[int],
) -> str:
    beyond = _beyond(kernel, moves, sizes, outs)
    if not any((*moves.pads, *beyond)):
        return piece.add("MaxPool", value, kernel_shape=kernel, strides=moves.strides)
    lowest = float(np.finfo(np.float32).min)
    padded = _padded(piece, value, moves, beyond, lowest)
    return piece.add("MaxPool", padded, kernel_shape=kernel, strides=moves.strides)


def _means(
    piece: Piece,
    value: str,
    kernel: Sequence[int],
    moves: Geometry,
    sizes: Sequence[int],
    outs: Sequence[int],
    excludes: bool,
) -> str:
    """Sums over windows by the number of places that count: all within the input and, unless the op
    *excludes* it, its padding; never what lies behind that."""
    beyond = _beyond(kernel, moves, sizes, outs)
    padded = _padded(piece, value, moves, beyond, 0.0)
    result = piece.add("AveragePool", padded, kernel_shape=kernel, strides=moves.strides)
    shares = _shares(kernel, moves, sizes, outs, excludes)
    return piece.add("Mul", result, np.asarray(shares, np.float32))


def _shares(
    kernel: Sequence[int],
    moves: Geometry,
    sizes: Sequence[int],
    outs: Sequence[int],
    excludes: bool,
) -> np.ndarray:
    """By output place: the places of a window over those of them that count."""
    counts = []
    for axis in range(2):
        start = 0 if excludes else -moves.pads[axis]
        end = sizes[axis] + (0 if excludes else moves.pads[axis + 2])
        first = np.arange(outs[axis]) * moves.strides[axis] - moves.pads[axis]
        last = first + kernel[axis]
        counts.append(np.minimum(last, end) - np.maximum(first, start))
    places = np.outer(*counts)
    return np.asarray(kernel[0] * kernel[1] / np.maximum(places, 1))


@ROWS.row("MaxPoolGrad", "AvgPoolGrad", "AvgPoolGradD", source=POOL)
def _pool_gradient(piece: Piece) -> Sequence[str]:
    is_max = piece.op.type == "MaxPoolGrad"
    at = 2 if is_max else len(piece) - 1
    here = axes(piece, at)
    there = four_axes(output_layout(piece), here)
    sizes, outs = _space(there, output_shape(piece)), _space(here, piece.shape(at))
    kernel, moves = windows(piece, there, sizes, outs)
    gradient = to_layout(piece, needed(piece, at), here, "NCHW")
    beyond = _beyond(kernel, moves, sizes, outs)
    if not is_max:
        excludes = bool(piece.attr("exclusive", piece.attr("padding", "") == "SAME"))
        shares = _shares(kernel, moves, sizes, outs, excludes) / (kernel[0] * kernel[1])
        spread = piece.add("Mul", gradient, np.asarray(shares, np.float32))
        result = _spread(piece, spread, kernel, moves, sizes, outs)
        return [to_layout(piece, result, "NCHW", there)]
    value = to_layout(piece, needed(piece, 0), four_axes(layout(piece, 0), there), "NCHW")
    padded = _padded(piece, value, moves, beyond, float(np.finfo(np.float32).min))
    return [
        to_layout(
            piece, _to_maxima(piece, padded, gradient, kernel, moves, sizes, beyond), "NCHW", there
        )
    ]


def _spread(
    piece: Piece,
    gradient: str,
    kernel: Sequence[int],
    moves: Geometry,
    sizes: Sequence[int],
    outs: Sequence[int],
) -> str:
    """Each value added to all places of its window: channels are moved into the batch."""
    batch = piece.add("Shape", gradient, start=0, end=2)
    alone = piece.reshape(gradient, (-1, 1, *outs))
    ones = piece.const(np.ones((1, 1, *kernel), np.float32))
    high, wide = sizes
    over = moves.over((kernel[0], kernel[1]), outs)
    result = put_back(piece, alone, ones, over, sizes, 1)
    shape = piece.add("Concat", batch, piece.ints(high, wide), axis=0)
    return piece.add("Reshape", result, shape)


def _to_maxima(
    piece: Piece,
    padded: str,
    gradient: str,
    kernel: Sequence[int],
    moves: Geometry,
    sizes: Sequence[int],
    beyond: Sequence[int],
) -> str:
    """Each value of the gradient at the first place of its window that holds the maximum."""
    top, left_pad, bottom, right = moves.pads
    rows = sizes[0] + top + bottom + beyond[0]
    columns = sizes[1] + left_pad + right + beyond[1]
    shape = piece.add("Shape", padded, start=0, end=2)
    flat = piece.reshape(padded, (-1, 1, rows, columns))
    _, places = piece.add_many("MaxPool", 2, flat, kernel_shape=kernel, strides=moves.strides)
    # ONNX counts places through the whole tensor, plane after plane, as ScatterElements needs it.
    zeros = piece.add("Mul", piece.add("Flatten", flat, axis=0), np.array(0.0, np.float32))
    filled = piece.add(
        "ScatterElements",
        zeros,
        piece.add("Flatten", places, axis=0),
        piece.add("Flatten", gradient, axis=0),
        axis=1,
        reduction="add",
    )
    full_shape = piece.add("Concat", shape, piece.ints(rows, columns), axis=0)
    result = piece.add("Reshape", filled, full_shape)
    ends = piece.ints(top + sizes[0], left_pad + sizes[1])
    return piece.add("Slice", result, piece.ints(top, left_pad), ends, piece.ints(2, 3))
