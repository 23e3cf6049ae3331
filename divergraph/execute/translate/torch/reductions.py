"""Calls that reduce tensors along axes, and what is accumulated along one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row

_SOURCE = "torch, reduction ops"


@row("sum", "mean", source=_SOURCE)
def _sum(call: TorchCall) -> Outputs:
    kind = "ReduceSum" if call.type == "sum" else "ReduceMean"
    value = call.operand(0, "input", call.result)
    return [call.reduced(kind, value, call.axes(1, "dim"), keep=call.flag(2, "keepdim"))]


@row("prod", source=_SOURCE)
def _prod(call: TorchCall) -> Outputs:
    value = call.operand(0, "input", call.result)
    return [call.reduced("ReduceProd", value, call.axes(1, "dim"), keep=call.flag(2, "keepdim"))]


@row("var", "std", "var_mean", source=_SOURCE)
def _variance(call: TorchCall) -> Outputs:
    second = call.argument(1, "dim")
    if isinstance(second, bool):
        axes, less = tuple(range(len(call.shape()))), int(second)
    else:
        axes, less = call.axes(1, "dim"), int(call.flag(2, "unbiased", True))
    less = call.integer(None, "correction", less)
    keep = call.flag(3, "keepdim")
    result, mean = _variance_along(call, call.tensor(), axes, less, keep=keep)
    if call.type == "std":
        return [result.sqrt()]
    if call.type == "var":
        return [result]
    return [result, mean if keep else call.reduced("ReduceMean", call.tensor(), axes)]


def _variance_along(
    call: TorchCall, tensor: Expr, axes: Sequence[int], less: int = 0, *, keep: bool = True
) -> tuple[Expr, Expr]:
    """The variance of a *tensor* along *axes*, over their count *less* so many, and its mean, which
    keeps the axes."""
    shape = call.shape()
    count = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    mean = call.reduced("ReduceMean", tensor, axes, keep=True)
    apart = tensor - mean
    total = call.reduced("ReduceSum", apart * apart, axes, keep=keep)
    return total / float(max(count - less, 0)), mean


@row("norm", "vector_norm", "linalg_norm", "linalg_vector_norm", source="torch.linalg.vector_norm")
def _norm(call: TorchCall) -> Outputs:
    keep = call.flag(3, "keepdim")
    return [_vector_norm(call, call.operand(0, "input"), call.axes(2, "dim"), keep=keep)]


@row("_foreach_norm", source="torch.linalg.vector_norm")
def _norms(call: TorchCall) -> Outputs:
    return [_vector_norm(call, name, ()) for name in call.tensors(0)]


def _vector_norm(call: TorchCall, name: Expr, axes: Sequence[int], *, keep: bool = False) -> Expr:
    order = call.argument(1, "ord" if call.argument(1, "p") is None else "p")
    return norm_along(call, name, 2 if order in (None, "fro") else order, axes, keep=keep)


def norm_along(
    call: TorchCall, name: Expr, order: object, axes: Sequence[int], *, keep: bool = False
) -> Expr:
    """The norm of this *order* of the vectors along *axes*."""
    if isinstance(order, int | float) and order == np.inf:
        return call.reduced("ReduceMax", abs(name), axes, keep=keep)
    if not isinstance(order, int | float) or order not in (1, 2):
        raise call.refused(f"is of order {order}")
    return call.reduced(f"ReduceL{int(order)}", name, axes, keep=keep)


@row("normalize", source="torch.nn.functional.normalize")
def _normalize(call: TorchCall) -> Outputs:
    axis, least = call.axis(2, "dim", 1), call.number(3, "eps", 1e-12)
    if call.number(1, "p", 2.0) != 2:
        raise call.refused("is of another order than 2")
    size = call.reduced("ReduceL2", call.tensor(), (axis,), keep=True)
    return [call.tensor() / size.max(least)]


@row("logsumexp", source="torch.logsumexp")
def _logsumexp(call: TorchCall) -> Outputs:
    keep = call.flag(2, "keepdim")
    return [call.reduced("ReduceLogSumExp", call.tensor(), call.axes(1, "dim"), keep=keep)]


@row("amax", "amin", source="torch.amax")
def _extreme(call: TorchCall) -> Outputs:
    kind = "ReduceMax" if call.type == "amax" else "ReduceMin"
    return [call.reduced(kind, call.tensor(), call.axes(1, "dim"), keep=call.flag(2, "keepdim"))]


@row("max", "min", source="torch.max")
def _max(call: TorchCall) -> Outputs:
    most = call.type == "max"
    if call.find(1, "other") is not None:
        return [
            call.add("Max" if most else "Min", call.operand(0, "input"), call.operand(1, "other"))
        ]
    kind = "ReduceMax" if most else "ReduceMin"
    if call.argument(1, "dim") is None:
        return [call.reduced(kind, call.tensor(), ())]
    axis, keep = call.axis(1, "dim"), call.flag(2, "keepdim")
    places = call.add("ArgMax" if most else "ArgMin", call.tensor(), axis=axis, keepdims=int(keep))
    return [call.reduced(kind, call.tensor(), (axis,), keep=keep), places]


@row("argmax", "argmin", source="torch.argmax")
def _argmax(call: TorchCall) -> Outputs:
    kind, name = "ArgMax" if call.type == "argmax" else "ArgMin", call.tensor()
    if call.argument(1, "dim") is None:
        flat = call.piece.reshape(name, (-1,))
        return [call.add(kind, flat, axis=0, keepdims=0)]
    return [call.add(kind, name, axis=call.axis(1, "dim"), keepdims=int(call.flag(2, "keepdim")))]


@row("any", "all", source="torch.any")
def _any(call: TorchCall) -> Outputs:
    kind = "ReduceMax" if call.type == "any" else "ReduceMin"
    value = call.piece.cast(call.operand(0, "input", np.dtype(np.bool_)), np.int32)
    listed = call.piece.ints(*call.axes(1, "dim"))
    result = call.add(kind, value, listed, keepdims=int(call.flag(2, "keepdim")))
    return [call.piece.cast(result, np.bool_)]


@row("topk", source="torch.topk")
def _topk(call: TorchCall) -> Outputs:
    count, axis = call.integer(1, "k"), call.axis(2, "dim", -1)
    return call.piece.add_many(
        "TopK",
        2,
        call.tensor(),
        np.array([count], np.int64),
        axis=axis,
        largest=int(call.flag(3, "largest", True)),
        sorted=1,
    )


@row("sort", "argsort", source="torch.sort")
def _sort(call: TorchCall) -> Outputs:
    axis = call.axis(1, "dim", -1)
    size = np.array([call.shape()[axis]], np.int64)
    largest = int(call.flag(2, "descending"))
    result = call.piece.add_many("TopK", 2, call.tensor(), size, axis=axis, largest=largest)
    return result if call.type == "sort" else result[1:]


@row("cumsum", "cumsum_", source="torch.cumsum")
def _cumsum(call: TorchCall) -> Outputs:
    wide = call.piece.cast(call.operand(0, "input", call.result), np.float64)
    axis = np.array(call.axis(1, "dim"), np.int64)
    return [call.cast(call.add("CumSum", wide, axis))]
