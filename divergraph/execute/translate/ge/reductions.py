"""Sums, means and maxima along axes, softmax and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    NN,
    NORM,
    REDUCE,
    ROWS,
    as_output,
    axes_of,
    integers,
    layout,
    needed,
    output_shape,
)
from divergraph.execute.translate.piece import Piece

_REDUCED = {
    **{kind: kind for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")},
    **{f"{kind}D": kind for kind in ("ReduceSum", "ReduceMean", "ReduceMax")},
    **{f"{kind}D": kind for kind in ("ReduceMin", "ReduceProd")},
}


def reduced(piece: Piece, kind: str, tensor: str, axes: Sequence[int], keep: bool) -> str:
    """*tensor* reduced along *axes*; itself where there are none."""
    if not axes:
        return tensor
    return piece.add(kind, tensor, piece.ints(*axes), keepdims=int(keep))


def _axes(piece: Piece) -> tuple[int, ...]:
    """The axes an op reduces. Whether an empty list means all or none differs between the ops and
    their versions: the shape of the output tells."""
    axes = axes_of(piece, "axes", 1)
    if axes or output_shape(piece) == piece.shape(0):
        return axes
    return tuple(range(piece.rank(0)))


@ROWS.row(*_REDUCED, source=REDUCE)
def _reduce(piece: Piece) -> Sequence[str]:
    axes = _axes(piece)
    keep = bool(piece.attr("keep_dims", False))
    return [reduced(piece, _REDUCED[piece.op.type], needed(piece, 0), axes, keep)]


@ROWS.row("ReduceAll", "ReduceAllD", "ReduceAny", "ReduceAnyD", source=REDUCE)
def _logical(piece: Piece) -> Sequence[str]:
    axes = _axes(piece)
    kind = "ReduceMin" if "All" in piece.op.type else "ReduceMax"
    numbers = piece.cast(needed(piece, 0), np.int32)
    result = reduced(piece, kind, numbers, axes, bool(piece.attr("keep_dims", False)))
    return [piece.cast(result, np.bool_)]


@ROWS.row("ArgMaxD", "ArgMaxV2", "ArgMax", "ArgMinD", "ArgMin", source=REDUCE)
def _places(piece: Piece) -> Sequence[str]:
    axis = axes_of(piece, "dimension", 1)[0]
    kind = piece.op.type[: len("ArgMax")]
    index_of_extreme = piece.add(kind, needed(piece, 0), axis=axis, keepdims=0)
    return [piece.cast(index_of_extreme, np.int32)]


@ROWS.row("SquareSumV1", "SquareSumAll", source=REDUCE)
def _square_sum(piece: Piece) -> Sequence[str]:
    names = range(2 if piece.op.type == "SquareSumAll" else 1)
    axis_attr = integers(piece.op.attrs.get("axis"))
    keep = bool(piece.attr("keep_dims", True)) if axis_attr else False
    axes = [axis_attr or tuple(range(piece.rank(at))) for at in names]
    return [reduced(piece, "ReduceSumSquare", needed(piece, at), axes[at], keep) for at in names]


@ROWS.row("L2Loss", source=NN)
def _l2_loss(piece: Piece) -> Sequence[str]:
    total = piece.add("ReduceSumSquare", needed(piece, 0), keepdims=0)
    return [piece.add("Mul", total, piece.number(0.5))]


@ROWS.row("BiasAddGrad", source=NN)
def _bias_gradient(piece: Piece) -> Sequence[str]:
    rank, name = piece.rank(0), layout(piece)
    if len(name) != rank:
        name = str(piece.attr("data_format", "NHWC"))
    channels = name.index("C") if len(name) == rank and "C" in name else rank - 1
    others = [axis for axis in range(rank) if axis != channels]
    return as_output(piece, reduced(piece, "ReduceSum", needed(piece, 0), others, keep=False))


def _softmax_axes(piece: Piece) -> tuple[int, ...]:
    axes_attr = piece.op.attrs.get("axes", piece.op.attrs.get("axis", (-1,)))
    return integers(axes_attr) or (-1,)


@ROWS.row("SoftmaxV2", "Softmax", "LogSoftmaxV2", source=NORM)
def _softmax(piece: Piece) -> Sequence[str]:
    kind = "LogSoftmax" if piece.op.type.startswith("Log") else "Softmax"
    axes = _softmax_axes(piece)
    if len(axes) == 1:
        return [piece.add(kind, needed(piece, 0), axis=axes[0])]
    value = needed(piece, 0)
    moved = piece.add("Sub", value, reduced(piece, "ReduceMax", value, axes, keep=True))
    power = piece.add("Exp", moved)
    total = reduced(piece, "ReduceSum", power, axes, keep=True)
    if kind == "LogSoftmax":
        return [piece.add("Sub", moved, piece.add("Log", total))]
    return [piece.add("Div", power, total)]


@ROWS.row("SoftmaxGrad", source=NORM)
def _softmax_gradient(piece: Piece) -> Sequence[str]:
    output, gradient = needed(piece, 0), needed(piece, 1)
    both = piece.add("Mul", output, gradient)
    total = reduced(piece, "ReduceSum", both, _softmax_axes(piece), keep=True)
    return [piece.add("Mul", piece.add("Sub", gradient, total), output)]


@ROWS.row("LogSoftmaxGrad", source=NORM)
def _log_softmax_gradient(piece: Piece) -> Sequence[str]:
    gradient, output = needed(piece, 0), needed(piece, 1)
    total = reduced(piece, "ReduceSum", gradient, _softmax_axes(piece), keep=True)
    return [piece.add("Sub", gradient, piece.add("Mul", piece.add("Exp", output), total))]


@ROWS.row("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", source=NORM)
def _cross_entropy(piece: Piece) -> Sequence[str]:
    logits = needed(piece, 0)
    chances = piece.add("LogSoftmax", logits, axis=-1)
    if piece.op.type.startswith("Sparse"):
        classes = piece.shape(0)[-1]
        values = piece.const(np.array([0.0, 1.0], np.float32))
        places = piece.cast(needed(piece, 1), np.int64)
        labels = piece.add("OneHot", places, np.array(classes), values, axis=-1)
    else:
        labels = needed(piece, 1)
    weighted = piece.add("Mul", chances, labels)
    loss = piece.add("Neg", reduced(piece, "ReduceSum", weighted, (-1,), keep=False))
    return [loss, piece.add("Sub", piece.add("Softmax", logits, axis=-1), labels)]


@ROWS.row("LpNorm", source=NORM)
def _norm(piece: Piece) -> Sequence[str]:
    power = int(piece.attr("p", 2))
    axes = integers(piece.op.attrs.get("axes")) or tuple(range(piece.rank(0)))
    if power not in (1, 2):
        raise NotTranslatedError(f"LpNorm of power {power}")
    keep = bool(piece.attr("keepdim", False))
    return [reduced(piece, f"ReduceL{power}", needed(piece, 0), axes, keep)]
