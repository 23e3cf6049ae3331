"""Normalisations over batches, layers and neighbours, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.elementwise import along_channels
from divergraph.execute.translate.ge.reductions import reduced
from divergraph.execute.translate.ge.table import (
    NORM,
    ROWS,
    as_output,
    four_axes,
    integers,
    layout,
    needed,
    optional,
    to_layout,
)
from divergraph.execute.translate.piece import Piece


def _by_channel(piece: Piece, at: int) -> str:
    """An input of one number a channel, laid along the channels of the first input."""
    return piece.reshape(needed(piece, at), along_channels(piece, prod(piece.shape(at))))


def _other_axes(piece: Piece) -> list[int]:
    shape = along_channels(piece, 0)
    return [axis for axis, size in enumerate(shape) if size == 1]


def _count(piece: Piece) -> int:
    return prod(piece.shape(0)[axis] for axis in _other_axes(piece))


def _root(piece: Piece, variance: str, usual: float | None = None) -> str:
    """sqrt(variance + epsilon)."""
    epsilon = piece.number(float(piece.attr("epsilon", usual)))
    return piece.add("Sqrt", piece.add("Add", variance, epsilon))


def _normal(piece: Piece, mean: str, variance: str, usual: float | None = None) -> str:
    difference = piece.add("Sub", needed(piece, 0), mean)
    return piece.add("Div", difference, _root(piece, variance, usual))


def _scaled(piece: Piece, value: str, scale: str, offset: str) -> str:
    return piece.add("Add", piece.add("Mul", value, scale), offset)


@ROWS.row("BNTrainingReduce", source=NORM)
def _batch_sums(piece: Piece) -> Sequence[str]:
    value, axes = needed(piece, 0), _other_axes(piece)
    total = reduced(piece, "ReduceSum", value, axes, keep=True)
    squares = reduced(piece, "ReduceSumSquare", value, axes, keep=True)
    return [*as_output(piece, total, 0), *as_output(piece, squares, 1)]


def _moments(piece: Piece) -> tuple[str, str]:
    """Mean and variance of the batch from its sums."""
    count = piece.number(float(_count(piece)))
    mean = piece.add("Div", _by_channel(piece, 1), count)
    squares = piece.add("Div", _by_channel(piece, 2), count)
    variance = piece.add("Sub", squares, piece.add("Mul", mean, mean))
    return mean, piece.add("Max", variance, piece.number(0.0))


def _unbiased(piece: Piece, variance: str) -> str:
    count = _count(piece)
    return piece.add("Mul", variance, piece.number(count / (count - 1) if count > 1 else 0.0))


@ROWS.row("BNTrainingUpdate", source=NORM)
def _batch_update(piece: Piece) -> Sequence[str]:
    mean, variance = _moments(piece)
    result = _scaled(
        piece, _normal(piece, mean, variance), _by_channel(piece, 3), _by_channel(piece, 4)
    )
    factor = float(piece.attr("factor"))
    updated = []
    for before, now in ((5, mean), (6, _unbiased(piece, variance))):
        decayed = piece.add("Mul", _by_channel(piece, before), piece.number(1.0 - factor))
        updated.append(piece.add("Add", decayed, piece.add("Mul", now, piece.number(factor))))
    results = [result, *updated, mean, variance]
    return [result, *(as_output(piece, results[port], port)[0] for port in range(1, len(results)))]


@ROWS.row("BNTrainingUpdateV2", "BNTrainingUpdateV3", source=NORM)
def _batch_update_without_history(piece: Piece) -> Sequence[str]:
    mean, variance = _moments(piece)
    result = _scaled(
        piece, _normal(piece, mean, variance), _by_channel(piece, 3), _by_channel(piece, 4)
    )
    results = [mean, variance]
    if piece.op.type == "BNTrainingUpdateV3":
        results = [mean, _unbiased(piece, variance), mean, variance]
    return [
        result,
        *(as_output(piece, result_name, port)[0] for port, result_name in enumerate(results, 1)),
    ]


@ROWS.row("BNTrainingUpdateGrad", source=NORM)
def _batch_parameter_gradients(piece: Piece) -> Sequence[str]:
    gradient, value = needed(piece, 0), needed(piece, 1)
    difference = piece.add("Sub", value, _by_channel(piece, 2))
    normal = piece.add("Div", difference, _root(piece, _by_channel(piece, 3), 0.0001))
    axes = _other_axes(piece)
    scale = reduced(piece, "ReduceSum", piece.add("Mul", gradient, normal), axes, keep=True)
    offset = reduced(piece, "ReduceSum", gradient, axes, keep=True)
    return [*as_output(piece, scale, 0), *as_output(piece, offset, 1)]


@ROWS.row("BNTrainingReduceGrad", source=NORM)
def _batch_gradient(piece: Piece) -> Sequence[str]:
    gradient, value = needed(piece, 0), needed(piece, 1)
    by_scale, by_offset, scale, mean, variance = (_by_channel(piece, at) for at in range(2, 7))
    root, count = _root(piece, variance, 0.0001), piece.number(float(_count(piece)))
    normal = piece.add("Div", piece.add("Sub", value, mean), root)
    shared = piece.add("Add", by_offset, piece.add("Mul", normal, by_scale))
    remainder = piece.add("Sub", gradient, piece.add("Div", shared, count))
    return [piece.add("Mul", remainder, piece.add("Div", scale, root))]


@ROWS.row("BNInferGrad", source=NORM)
def _fixed_gradient(piece: Piece) -> Sequence[str]:
    factor = piece.add("Div", _by_channel(piece, 1), _root(piece, _by_channel(piece, 2), 0.0001))
    return [piece.add("Mul", needed(piece, 0), factor)]


@ROWS.row("BNInfer", "BatchNorm", source=NORM)
def _fixed(piece: Piece) -> Sequence[str | None]:
    if piece.op.type == "BatchNorm" and piece.attr("is_training", True):
        raise NotTranslatedError("BatchNorm in training")
    normal = _normal(piece, _by_channel(piece, 3), _by_channel(piece, 4), 0.0001)
    return [_scaled(piece, normal, _by_channel(piece, 1), _by_channel(piece, 2))]


@ROWS.row("BNInferenceD", source=NORM)
def _moved_and_scaled(piece: Piece) -> Sequence[str]:
    """Mean and variance come as the host prepared them: what is added, and the factor."""
    moved = piece.add("Add", needed(piece, 0), _by_channel(piece, 1))
    result = piece.add("Mul", moved, _by_channel(piece, 2))
    for at, kind in ((3, "Mul"), (4, "Add")):
        if optional(piece, at) is not None:
            result = piece.add(kind, result, _by_channel(piece, at))
    return [result]


@ROWS.row("L2Normalize", source=NORM)
def _unit_length(piece: Piece) -> Sequence[str]:
    value, axes = needed(piece, 0), integers(piece.op.attrs.get("axis"))
    total = reduced(piece, "ReduceSumSquare", value, axes, keep=True)
    smallest = piece.add("Max", total, piece.number(float(piece.attr("eps", 1e-4))))
    return [piece.add("Div", value, piece.add("Sqrt", smallest))]


@ROWS.row("LRN", source=NORM)
def _neighbours(piece: Piece) -> Sequence[str]:
    if str(piece.attr("norm_region", "ACROSS_CHANNELS")) != "ACROSS_CHANNELS":
        raise NotTranslatedError("LRN within channels")
    here = four_axes(layout(piece))
    size = 2 * int(piece.attr("depth_radius", 5)) + 1
    result = piece.add(
        "LRN",
        to_layout(piece, needed(piece, 0), here, "NCHW"),
        alpha=float(piece.attr("alpha", 1.0)) * size,
        beta=float(piece.attr("beta", 0.5)),
        bias=float(piece.attr("bias", 1.0)),
        size=size,
    )
    return [to_layout(piece, result, "NCHW", here)]


@ROWS.row("Cumsum", "CumsumD", source=NORM)
def _running_sum(piece: Piece) -> Sequence[str]:
    is_dynamic = piece.op.type == "Cumsum"
    axis = piece.integers(1)[0] if is_dynamic else int(piece.attr("axis"))
    sums = piece.add(
        "CumSum",
        needed(piece, 0),
        np.array(axis, np.int64),
        exclusive=int(piece.attr("exclusive", False)),
        reverse=int(piece.attr("reverse", False)),
    )
    return [sums]
