"""Softmax, its losses, and adding a bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS


@ROWS.row("Softmax", source=NN)
def softmax(p: Piece) -> Sequence[str]:
    """Shares along the last axis."""
    return [p.add("Softmax", p.name(), axis=-1)]


@ROWS.row("LogSoftmax", source=NN)
def log_softmax(p: Piece) -> Sequence[str]:
    """Logarithms of shares along the last axis."""
    return [p.add("LogSoftmax", p.name(), axis=-1)]


def _parts(p: Piece, logits: str) -> tuple[str, str, str]:
    """The logits less their largest, the sums of their exponentials, and the shares."""
    last = p.ints(-1)
    level = p.add("Sub", logits, p.add("ReduceMax", logits, last, keepdims=1))
    exp = p.add("Exp", level)
    total = p.add("ReduceSum", exp, last, keepdims=1)
    return level, p.add("Log", total), p.add("Div", exp, total)


@ROWS.row("SoftmaxCrossEntropyWithLogits", source=NN)
def softmax_cross_entropy(p: Piece) -> Sequence[str]:
    """The loss of each row, and its gradient by the logits."""
    level, logarithm, shares = _parts(p, p.name(0))
    terms = p.add("Mul", p.name(1), p.add("Sub", logarithm, level))
    return [p.add("ReduceSum", terms, p.ints(-1), keepdims=0), p.add("Sub", shares, p.name(1))]


@ROWS.row("SparseSoftmaxCrossEntropyWithLogits", source=NN)
def sparse_softmax_cross_entropy(p: Piece) -> Sequence[str]:
    """As with labels of one share each, given by their places."""
    level, logarithm, shares = _parts(p, p.name(0))
    places = p.reshape(p.name(1), (*p.shape(1), 1))
    of_label = p.add("GatherElements", level, places, axis=1)
    loss = p.add("Squeeze", p.add("Sub", logarithm, of_label), p.ints(-1))
    classes = p.const(np.arange(p.shape(0)[1], dtype=p.dtype(1)))
    hit = p.cast(p.add("Equal", places, classes), p.dtype(0))
    return [loss, p.add("Sub", shares, hit)]


@ROWS.row("BiasAdd", "BiasAddV1", source=NN)
def bias_add(p: Piece) -> Sequence[str]:
    """One number added to each channel."""
    bias = p.name(1)
    if p.attr("data_format", "NHWC").startswith("NC") and p.rank(0) > 2:
        bias = p.add("Unsqueeze", bias, p.ints(*range(1, p.rank(0) - 1)))
    return [p.add("Add", p.name(0), bias)]


@ROWS.row("BiasAddGrad", source=NN)
def bias_add_grad(p: Piece) -> Sequence[str]:
    """The sum of each channel."""
    first = p.attr("data_format", "NHWC").startswith("NC") and p.rank(0) > 2
    axis = 1 if first else p.rank(0) - 1
    rest = [at for at in range(p.rank(0)) if at != axis]
    if p.dtype(0) == np.float32:
        return [p.summed("ReduceSum", p.name(0), rest)]
    return [p.add("ReduceSum", p.name(0), p.ints(*rest), keepdims=0, noop_with_empty_axes=1)]


@ROWS.row("DataFormatVecPermute", source=NN)
def vector_of_another_format(p: Piece) -> Sequence[str]:
    """Numbers for each axis in the order of another data format."""
    source_format, wanted = p.attr("src_format", "NHWC"), p.attr("dst_format", "NCHW")
    if p.shape(0)[0] == len(source_format) - 2:
        source_format, wanted = (
            "".join(axis for axis in name if axis not in "NC") for name in (source_format, wanted)
        )
    order = [source_format.index(axis) for axis in wanted]
    return [p.add("Gather", p.name(0), p.ints(*order), axis=0)]
