"""Softmax, its losses, and adding a bias."""

from __future__ import annotations

import numpy as np

from divergraph.execute.translate.contract import Row
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import MATH, NN, ROWS, numpy_type


@ROWS.row("Softmax", source=NN)
def softmax(p: Piece) -> Outputs:
    """Shares along the last axis."""
    return [p.add("Softmax", p.name(), axis=-1)]


@ROWS.row("LogSoftmax", source=NN)
def log_softmax(p: Piece) -> Outputs:
    """Logarithms of shares along the last axis."""
    return [p.add("LogSoftmax", p.name(), axis=-1)]


def _parts(p: Piece, logits: Expr) -> tuple[Expr, Expr, Expr]:
    """The logits less their largest, the sums of their exponentials, and the shares."""
    last = p.ints(-1)
    level = logits - p.add("ReduceMax", logits, last, keepdims=1)
    exp = level.exp()
    total = p.add("ReduceSum", exp, last, keepdims=1)
    return level, total.log(), exp / total


@ROWS.row("SoftmaxCrossEntropyWithLogits", source=NN)
def softmax_cross_entropy(p: Piece) -> Outputs:
    """The loss of each row, and its gradient by the logits."""
    level, logarithm, shares = _parts(p, p.name(0))
    terms = p.name(1) * (logarithm - level)
    return [p.add("ReduceSum", terms, p.ints(-1), keepdims=0), shares - p.name(1)]


@ROWS.row("SparseSoftmaxCrossEntropyWithLogits", source=NN)
def sparse_softmax_cross_entropy(p: Piece) -> Outputs:
    """As with labels of one share each, given by their places."""
    level, logarithm, shares = _parts(p, p.name(0))
    places = p.reshape(p.name(1), (*p.shape(1), 1))
    of_label = p.add("GatherElements", level, places, axis=1)
    loss = p.add("Squeeze", logarithm - of_label, p.ints(-1))
    classes = p.const(np.arange(p.shape(0)[1], dtype=p.dtype(1)))
    hit = p.cast(places.equals(classes), p.dtype(0))
    return [loss, shares - hit]


@ROWS.row("BiasAdd", "BiasAddV1", source=NN)
def bias_add(p: Piece) -> Outputs:
    """One number added to each channel."""
    bias = p.name(1)
    if p.attr("data_format", "NHWC").startswith("NC") and p.rank(0) > 2:
        bias = p.add("Unsqueeze", bias, p.ints(*range(1, p.rank(0) - 1)))
    return [p.name(0) + bias]


@ROWS.row("BiasAddGrad", source=NN)
def bias_add_grad(p: Piece) -> Outputs:
    """The sum of each channel."""
    first = p.attr("data_format", "NHWC").startswith("NC") and p.rank(0) > 2
    axis = 1 if first else p.rank(0) - 1
    rest = [at for at in range(p.rank(0)) if at != axis]
    if p.dtype(0) == np.float32:
        return [p.summed("ReduceSum", p.name(0), rest)]
    return [p.add("ReduceSum", p.name(0), p.ints(*rest), keepdims=0, noop_with_empty_axes=1)]


@ROWS.row("DataFormatVecPermute", source=NN)
def vector_of_another_format(p: Piece) -> Outputs:
    """Numbers for each axis in the order of another data format."""
    source_format, wanted = p.attr("src_format", "NHWC"), p.attr("dst_format", "NCHW")
    if p.shape(0)[0] == len(source_format) - 2:
        source_format, wanted = (
            "".join(axis for axis in name if axis not in "NC") for name in (source_format, wanted)
        )
    order = [source_format.index(axis) for axis in wanted]
    return [p.add("Gather", p.name(0), p.ints(*order), axis=0)]


# Ops that make one number of many along some axes.


_ADDING = ("ReduceSum", "ReduceMean", "ReduceL2")


def _reducing(kind: str) -> Row:
    def row(p: Piece) -> Outputs:
        return [_reduced(p, kind, p.name())]

    return row


def _reduced(p: Piece, kind: str, tensor: Expr) -> Expr:
    keep = bool(p.attr("keep_dims", False))
    if kind in _ADDING and p.dtype() == np.float32:
        return p.summed(kind, tensor, p.integers(1), keep=keep)
    axes = p.const(np.array(p.integers(1), np.int64))
    # Without any axis, TensorFlow reduces along none.
    return p.add(kind, tensor, axes, keepdims=int(keep), noop_with_empty_axes=1)


for _kind, _onnx in {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Prod": "ReduceProd",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "EuclideanNorm": "ReduceL2",
}.items():
    ROWS.row(_kind, source=MATH)(_reducing(_onnx))


@ROWS.row("All", "Any", source=MATH)
def all_or_any(p: Piece) -> Outputs:
    """Whether all, or any, elements are true."""
    kind = "ReduceMin" if p.op.type == "All" else "ReduceMax"
    return [p.cast(_reduced(p, kind, p.cast(p.name(), np.uint8)), np.bool_)]


@ROWS.row("L2Loss", source=NN)
def l2_loss(p: Piece) -> Outputs:
    """Half the sum of the squares."""
    if p.dtype() == np.float32:
        squares = p.summed("ReduceSumSquare", p.name(), range(p.rank()))
    else:
        squares = p.add("ReduceSumSquare", p.name(), keepdims=0)
    return [squares * 0.5]


@ROWS.row("ArgMax", "ArgMin", source=MATH)
def arg_max(p: Piece) -> Outputs:
    """The first place of the largest, or smallest, element along an axis."""
    (axis,) = p.integers(1) if p.has(1) else (0,)
    index_of_extreme = p.add(p.op.type, p.name(), axis=axis, keepdims=0)
    kind = numpy_type(p.attr("output_type", "int64"))
    return [index_of_extreme if kind == np.int64 else p.cast(index_of_extreme, kind)]


@ROWS.row("Cumsum", source=MATH)
def cumulative_sum(p: Piece) -> Outputs:
    """Sums of all elements up to each one."""
    return [
        p.add(
            "CumSum",
            p.name(),
            p.const(np.array(p.integers(1)[0], np.int64)),
            exclusive=int(bool(p.attr("exclusive", False))),
            reverse=int(bool(p.attr("reverse", False))),
        )
    ]
