"""Normalisations over batches, layers and neighbours, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.elementwise import along_channels
from divergraph.execute.translate.ge.table import (
    NN,
    NORM,
    REDUCE,
    ROWS,
    as_output,
    axes_of,
    four_axes,
    integers,
    layout,
    output_shape,
    to_layout,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece


def _by_channel(piece: Piece, at: int) -> Expr:
    """An input of one number a channel, laid along the channels of the first input."""
    return piece.reshape(piece.name(at), along_channels(piece, prod(piece.shape(at))))


def _other_axes(piece: Piece) -> list[int]:
    shape = along_channels(piece, 0)
    return [axis for axis, size in enumerate(shape) if size == 1]


def _count(piece: Piece) -> int:
    return prod(piece.shape(0)[axis] for axis in _other_axes(piece))


def _root(piece: Piece, variance: Expr, usual: float | None = None) -> Expr:
    """sqrt(variance + epsilon)."""
    epsilon = piece.number(float(piece.attr("epsilon", usual)))
    return (variance + epsilon).sqrt()


def _normal(piece: Piece, mean: Expr, variance: Expr, usual: float | None = None) -> Expr:
    return (piece.name(0) - mean) / _root(piece, variance, usual)


def _scaled(value: Expr, scale: Expr, offset: Expr) -> Expr:
    return value * scale + offset


@ROWS.row("BNTrainingReduce", source=NORM)
def _batch_sums(piece: Piece) -> Outputs:
    value, axes = piece.name(0), _other_axes(piece)
    total = reduced(piece, "ReduceSum", value, axes, keep=True)
    squares = reduced(piece, "ReduceSumSquare", value, axes, keep=True)
    return [*as_output(piece, total, 0), *as_output(piece, squares, 1)]


def _moments(piece: Piece) -> tuple[Expr, Expr]:
    """Mean and variance of the batch from its sums."""
    count = piece.number(float(_count(piece)))
    mean = _by_channel(piece, 1) / count
    variance = _by_channel(piece, 2) / count - mean * mean
    return mean, variance.max(0.0)


def _unbiased(piece: Piece, variance: Expr) -> Expr:
    count = _count(piece)
    return variance * (count / (count - 1) if count > 1 else 0.0)


@ROWS.row("BNTrainingUpdate", "BNTrainingUpdateV2", "BNTrainingUpdateV3", source=NORM)
def _batch_update(piece: Piece) -> Outputs:
    """The first form moves a mean and a variance that it is given; the third hands on its own."""
    mean, variance = _moments(piece)
    result = _scaled(_normal(piece, mean, variance), _by_channel(piece, 3), _by_channel(piece, 4))
    moved: list[Expr] = []
    if piece.op.type == "BNTrainingUpdate":
        factor = float(piece.attr("factor"))
        for before, now in ((5, mean), (6, _unbiased(piece, variance))):
            moved.append(_by_channel(piece, before) * (1.0 - factor) + now * factor)
    elif piece.op.type == "BNTrainingUpdateV3":
        moved = [mean, _unbiased(piece, variance)]
    sides = enumerate((*moved, mean, variance), start=1)
    return [result, *(as_output(piece, side, port)[0] for port, side in sides)]


@ROWS.row("BNTrainingUpdateGrad", source=NORM)
def _batch_parameter_gradients(piece: Piece) -> Outputs:
    gradient, value = piece.name(0), piece.name(1)
    normal = (value - _by_channel(piece, 2)) / _root(piece, _by_channel(piece, 3), 0.0001)
    axes = _other_axes(piece)
    scale = reduced(piece, "ReduceSum", gradient * normal, axes, keep=True)
    offset = reduced(piece, "ReduceSum", gradient, axes, keep=True)
    return [*as_output(piece, scale, 0), *as_output(piece, offset, 1)]


@ROWS.row("BNTrainingReduceGrad", source=NORM)
def _batch_gradient(piece: Piece) -> Outputs:
    gradient, value = piece.name(0), piece.name(1)
    by_scale, by_offset, scale, mean, variance = (_by_channel(piece, at) for at in range(2, 7))
    root, count = _root(piece, variance, 0.0001), piece.number(float(_count(piece)))
    shared = by_offset + (value - mean) / root * by_scale
    return [(gradient - shared / count) * (scale / root)]


@ROWS.row("BNInferGrad", source=NORM)
def _fixed_gradient(piece: Piece) -> Outputs:
    factor = _by_channel(piece, 1) / _root(piece, _by_channel(piece, 2), 0.0001)
    return [piece.name(0) * factor]


@ROWS.row("BNInfer", "BatchNorm", source=NORM)
def _fixed(piece: Piece) -> Outputs:
    if piece.op.type == "BatchNorm" and piece.attr("is_training", True):
        raise NotTranslatedError("BatchNorm in training")
    normal = _normal(piece, _by_channel(piece, 3), _by_channel(piece, 4), 0.0001)
    return [_scaled(normal, _by_channel(piece, 1), _by_channel(piece, 2))]


@ROWS.row("BNInferenceD", source=NORM)
def _moved_and_scaled(piece: Piece) -> Outputs:
    """Mean and variance come as the host prepared them: what is added, and the factor."""
    moved = piece.name(0) + _by_channel(piece, 1)
    result = moved * _by_channel(piece, 2)
    for at, kind in ((3, "Mul"), (4, "Add")):
        if piece.optional(at) is not None:
            result = piece.add(kind, result, _by_channel(piece, at))
    return [result]


@ROWS.row("L2Normalize", source=NORM)
def _unit_length(piece: Piece) -> Outputs:
    value, axes = piece.name(0), integers(piece.op.attrs.get("axis"))
    total = reduced(piece, "ReduceSumSquare", value, axes, keep=True)
    smallest = total.max(float(piece.attr("eps", 0.0001)))
    return [value / smallest.sqrt()]


@ROWS.row("LRN", source=NORM)
def _neighbours(piece: Piece) -> Outputs:
    if str(piece.attr("norm_region", "ACROSS_CHANNELS")) != "ACROSS_CHANNELS":
        raise NotTranslatedError("LRN within channels")
    here = four_axes(layout(piece))
    size = 2 * int(piece.attr("depth_radius", 5)) + 1
    result = piece.add(
        "LRN",
        to_layout(piece, piece.name(0), here, "NCHW"),
        alpha=float(piece.attr("alpha", 1.0)) * size,
        beta=float(piece.attr("beta", 0.5)),
        bias=float(piece.attr("bias", 1.0)),
        size=size,
    )
    return [to_layout(piece, result, "NCHW", here)]


@ROWS.row("Cumsum", "CumsumD", source=NORM)
def _running_sum(piece: Piece) -> Outputs:
    is_dynamic = piece.op.type == "Cumsum"
    axis = piece.integers(1)[0] if is_dynamic else int(piece.attr("axis"))
    sums = piece.add(
        "CumSum",
        piece.name(0),
        np.array(axis, np.int64),
        exclusive=int(piece.attr("exclusive", False)),
        reverse=int(piece.attr("reverse", False)),
    )
    return [sums]


# Sums, means and maxima along axes, softmax and losses.


_REDUCED = {
    **{kind: kind for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")},
    **{f"{kind}D": kind for kind in ("ReduceSum", "ReduceMean", "ReduceMax")},
    **{f"{kind}D": kind for kind in ("ReduceMin", "ReduceProd")},
}


def reduced(piece: Piece, kind: str, tensor: Expr, axes: Sequence[int], keep: bool) -> Expr:
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
def _reduce(piece: Piece) -> Outputs:
    axes = _axes(piece)
    keep = bool(piece.attr("keep_dims", False))
    return [reduced(piece, _REDUCED[piece.op.type], piece.name(0), axes, keep)]


@ROWS.row("ReduceAll", "ReduceAllD", "ReduceAny", "ReduceAnyD", source=REDUCE)
def _logical(piece: Piece) -> Outputs:
    axes = _axes(piece)
    kind = "ReduceMin" if "All" in piece.op.type else "ReduceMax"
    numbers = piece.cast(piece.name(0), np.int32)
    result = reduced(piece, kind, numbers, axes, bool(piece.attr("keep_dims", False)))
    return [piece.cast(result, np.bool_)]


@ROWS.row("ArgMaxD", "ArgMaxV2", "ArgMax", "ArgMinD", "ArgMin", source=REDUCE)
def _places(piece: Piece) -> Outputs:
    axis = axes_of(piece, "dimension", 1)[0]
    kind = piece.op.type[: len("ArgMax")]
    index_of_extreme = piece.add(kind, piece.name(0), axis=axis, keepdims=0)
    return [piece.cast(index_of_extreme, np.int32)]


@ROWS.row("SquareSumV1", "SquareSumAll", source=REDUCE)
def _square_sum(piece: Piece) -> Outputs:
    names = range(2 if piece.op.type == "SquareSumAll" else 1)
    axis_attr = integers(piece.op.attrs.get("axis"))
    keep = bool(piece.attr("keep_dims", True)) if axis_attr else False
    axes = [axis_attr or tuple(range(piece.rank(at))) for at in names]
    return [reduced(piece, "ReduceSumSquare", piece.name(at), axes[at], keep) for at in names]


@ROWS.row("L2Loss", source=NN)
def _l2_loss(piece: Piece) -> Outputs:
    total = piece.add("ReduceSumSquare", piece.name(0), keepdims=0)
    return [total * 0.5]


@ROWS.row("BiasAddGrad", source=NN)
def _bias_gradient(piece: Piece) -> Outputs:
    rank, name = piece.rank(0), layout(piece)
    if len(name) != rank:
        name = str(piece.attr("data_format", "NHWC"))
    channels = name.index("C") if len(name) == rank and "C" in name else rank - 1
    others = [axis for axis in range(rank) if axis != channels]
    return as_output(piece, reduced(piece, "ReduceSum", piece.name(0), others, keep=False))


def _softmax_axes(piece: Piece) -> tuple[int, ...]:
    axes_attr = piece.op.attrs.get("axes", piece.op.attrs.get("axis", (-1,)))
    return integers(axes_attr) or (-1,)


@ROWS.row("SoftmaxV2", "Softmax", "LogSoftmaxV2", source=NORM)
def _softmax(piece: Piece) -> Outputs:
    kind = "LogSoftmax" if piece.op.type.startswith("Log") else "Softmax"
    axes = _softmax_axes(piece)
    if len(axes) == 1:
        return [piece.add(kind, piece.name(0), axis=axes[0])]
    value = piece.name(0)
    moved = value - reduced(piece, "ReduceMax", value, axes, keep=True)
    power = moved.exp()
    total = reduced(piece, "ReduceSum", power, axes, keep=True)
    if kind == "LogSoftmax":
        return [moved - total.log()]
    return [power / total]


@ROWS.row("SoftmaxGrad", source=NORM)
def _softmax_gradient(piece: Piece) -> Outputs:
    output, gradient = piece.name(0), piece.name(1)
    both = output * gradient
    total = reduced(piece, "ReduceSum", both, _softmax_axes(piece), keep=True)
    return [(gradient - total) * output]


@ROWS.row("LogSoftmaxGrad", source=NORM)
def _log_softmax_gradient(piece: Piece) -> Outputs:
    gradient, output = piece.name(0), piece.name(1)
    total = reduced(piece, "ReduceSum", gradient, _softmax_axes(piece), keep=True)
    return [gradient - output.exp() * total]


@ROWS.row("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", source=NORM)
def _cross_entropy(piece: Piece) -> Outputs:
    logits = piece.name(0)
    chances = piece.add("LogSoftmax", logits, axis=-1)
    if piece.op.type.startswith("Sparse"):
        classes = piece.shape(0)[-1]
        values = piece.const(np.array([0.0, 1.0], np.float32))
        places = piece.cast(piece.name(1), np.int64)
        labels = piece.add("OneHot", places, np.array(classes), values, axis=-1)
    else:
        labels = piece.name(1)
    loss = -reduced(piece, "ReduceSum", chances * labels, (-1,), keep=False)
    return [loss, piece.add("Softmax", logits, axis=-1) - labels]


@ROWS.row("LpNorm", source=NORM)
def _norm(piece: Piece) -> Outputs:
    power = int(piece.attr("p", 2))
    axes = integers(piece.op.attrs.get("axes")) or tuple(range(piece.rank(0)))
    if power not in (1, 2):
        raise NotTranslatedError(f"LpNorm of power {power}")
    keep = bool(piece.attr("keepdim", False))
    return [reduced(piece, f"ReduceL{power}", piece.name(0), axes, keep)]


# Layer normalisation and its gradients.


_LEAST = 1e-12
"""What the gradients add to a variance; they have no attribute for it."""


def _rooted(piece: Piece, variance: Expr, usual: float) -> Expr:
    epsilon = piece.number(float(piece.attr("epsilon", usual)))
    return (variance + epsilon).sqrt()


@ROWS.row("LayerNorm", source=NORM)
def _layer(piece: Piece) -> Outputs:
    value, rank = piece.name(0), piece.rank(0)
    axes = range(int(piece.attr("begin_norm_axis", 0)) % rank, rank)
    mean = reduced(piece, "ReduceMean", value, axes, keep=True)
    difference = value - mean
    variance = reduced(piece, "ReduceMean", difference * difference, axes, keep=True)
    normal = difference / _rooted(piece, variance, 1e-07)
    result = normal * piece.name(1) + piece.name(2)
    sides = [mean, variance][: len(piece.op.outputs) - 1]
    return [result, *(as_output(piece, side, port)[0] for port, side in enumerate(sides, 1))]


def _normal_and_root(piece: Piece) -> tuple[Expr, Expr]:
    """The normalised input, and the root of the variance, of an op that reads the gradient, the
    input, its variance and its mean."""
    root = _rooted(piece, piece.name(2), _LEAST)
    return (piece.name(1) - piece.name(3)) / root, root


def _input_gradient(piece: Piece, normal: Expr, root: Expr) -> Expr:
    sizes = zip(piece.shape(1), piece.shape(3), strict=True)
    axes = [axis for axis, (size, mean) in enumerate(sizes) if size != 1 and mean == 1]
    scaled = piece.name(0) * piece.name(4)
    mean = reduced(piece, "ReduceMean", scaled, axes, keep=True)
    along = normal * reduced(piece, "ReduceMean", scaled * normal, axes, keep=True)
    return (scaled - mean - along) / root


def _parameter_gradients(piece: Piece, normal: Expr, port: int) -> list[Expr]:
    """The gradients by gamma, which is output *port*, and by beta."""
    gradient = piece.name(0)
    axes = range(piece.rank(0) - len(output_shape(piece, port)))
    both = (gradient * normal, gradient)
    return [reduced(piece, "ReduceSum", product, axes, keep=False) for product in both]


@ROWS.row("LayerNormXBackprop", "LayerNormXBackpropV2", "LayerNormXBackpropV3", source=NORM)
def _by_input(piece: Piece) -> Outputs:
    normal, root = _normal_and_root(piece)
    gradient = _input_gradient(piece, normal, root)
    return [gradient, normal][: len(piece.op.outputs)]


@ROWS.row("LayerNormGrad", source=NORM)
def _by_all(piece: Piece) -> Outputs:
    normal, root = _normal_and_root(piece)
    return [_input_gradient(piece, normal, root), *_parameter_gradients(piece, normal, 1)]


@ROWS.row("LayerNormBetaGammaBackprop", source=NORM)
def _by_parameters(piece: Piece) -> Outputs:
    return _parameter_gradients(piece, _normal_and_root(piece)[0], 0)


@ROWS.row("LayerNormBetaGammaBackpropV2", source=NORM)
def _by_parameters_of_normal(piece: Piece) -> Outputs:
    return _parameter_gradients(piece, piece.name(1), 0)
