"""Ops that make one number of many along some axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import Row
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.element_types import numpy_type
from divergraph.execute.translate.tensorflow.rows.table import MATH, NN, ROWS

_ADDING = ("ReduceSum", "ReduceMean", "ReduceL2")


def _reducing(kind: str) -> Row:
    def row(p: Piece) -> Sequence[str]:
        return [_reduced(p, kind, p.name())]

    return row


def _reduced(p: Piece, kind: str, tensor: str) -> str:
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
def all_or_any(p: Piece) -> Sequence[str]:
    """Whether all, or any, elements are true."""
    kind = "ReduceMin" if p.op.type == "All" else "ReduceMax"
    return [p.cast(_reduced(p, kind, p.cast(p.name(), np.uint8)), np.bool_)]


@ROWS.row("L2Loss", source=NN)
def l2_loss(p: Piece) -> Sequence[str]:
    """Half the sum of the squares."""
    if p.dtype() == np.float32:
        squares = p.summed("ReduceSumSquare", p.name(), range(p.rank()))
    else:
        squares = p.add("ReduceSumSquare", p.name(), keepdims=0)
    return [p.add("Mul", squares, p.number(0.5))]


@ROWS.row("ArgMax", "ArgMin", source=MATH)
def arg_max(p: Piece) -> Sequence[str]:
    """The first place of the largest, or smallest, element along an axis."""
    (axis,) = p.integers(1) if p.has(1) else (0,)
    index_of_extreme = p.add(p.op.type, p.name(), axis=axis, keepdims=0)
    kind = numpy_type(p.attr("output_type", "int64"))
    return [index_of_extreme if kind == np.int64 else p.cast(index_of_extreme, kind)]


@ROWS.row("Cumsum", source=MATH)
def cumulative_sum(p: Piece) -> Sequence[str]:
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
