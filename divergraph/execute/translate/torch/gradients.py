"""Ways back of calls whose last node of autograd is not the call, or that are cheaper by hand.

All others follow from the rows of their ways there (``reverse``).

A dump has for a call the gradients of the last node of autograd. Where a call is one node these are
its own. Where it is several (a linear call of three axes, a matmul of four) they are not, and that
their shapes are not those of the call's inputs, or that golden's entry is not what golden's inputs
give, shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.losses import IGNORED
from divergraph.execute.translate.torch.matrices import grouped, joined, matrices
from divergraph.execute.translate.torch.reverse import back_by_its_row
from divergraph.execute.translate.torch.windows import along_axes

_SOURCE = "torch.autograd; derivatives of the functions of torch"


def _back(*types: str) -> tuple[str, ...]:
    return tuple(f"{each}.backward" for each in types)


@row(*_back("matmul", "bmm", "mm", "__matmul__"), source=_SOURCE)
def _matmul_back(call: TorchCall) -> Outputs:
    ranks = len(call.shape()), len(call.shape(1, "other" if call.find(1, "other") else "mat2"))
    if not call.is_by_argument and (min(ranks) < 2 or ranks[0] != ranks[1]):
        raise call.refused("is of several nodes")
    return back_by_its_row(call)


@row(*_back("linear", "dense"), source=_SOURCE)
def _linear_back(call: TorchCall) -> Outputs:
    if call.is_by_argument:
        return back_by_its_row(call)
    if len(call.shape()) != 2:
        raise call.refused("is of several nodes: its module has the gradient")
    # The node is a sum of a bias and a product with the weight turned, or the product alone.
    gradient, turned = call.gradient(), call.piece.transpose(call.tensor(), 1, 0)
    nodes = [gradient @ call.tensor(1, "weight")]
    nodes.append(turned @ gradient)
    if call.find(2, "bias") is not None:
        nodes.insert(0, call.reduced("ReduceSum", gradient, (0,)))
    return call.gradients({str(at): name for at, name in enumerate(nodes)})


@row(*_back("_grouped_mm"), source=_SOURCE)
def _grouped_back(call: TorchCall) -> Outputs:
    weights = [call.piece.transpose(weight, 1, 0) for weight in matrices(call)]
    arrived = grouped(call, call.gradient())
    read = [call.piece.transpose(rows, 1, 0) for rows in grouped(call, call.tensor())]
    of_rows = [rows @ weight for rows, weight in zip(arrived, weights, strict=True)]
    front = call.piece.ints(0)
    of_weights = [
        call.add("Unsqueeze", rows @ gradient, front)
        for rows, gradient in zip(read, arrived, strict=True)
    ]
    return call.gradients(
        {"0": joined(call, of_rows), "1": call.add("Concat", *of_weights, axis=0)}
    )


@row("embedding.backward", "Embedding.parameters_grad", source=_SOURCE)
def _embedding_back(call: TorchCall) -> Outputs:
    gradients, padding = back_by_its_row(call), call.argument(2, "padding_idx")
    if not isinstance(padding, int) or padding < 0:  # ATen's -1 is none
        return gradients
    learns = np.ones((call.shape(1, "weight")[0], 1))
    learns[padding] = 0.0  # what stands for nothing is not learnt
    return [each and each * call.constant(learns) for each in gradients]


@row(*_back("repeat_interleave"), source=_SOURCE)
def _repeat_interleave_back(call: TorchCall) -> Outputs:
    count, axis, shape = call.integer(1, "repeats"), call.axis(2, "dim"), call.shape()
    apart = (*shape[: axis + 1], count, *shape[axis + 1 :])
    total = call.reduced("ReduceSum", call.piece.reshape(call.gradient(), apart), [axis + 1])
    return call.gradients({"0": total})


# Ways back of what averages or resizes each axis by itself: the transposed matrix of each.


_BEGIN = 2


def _pulled_back(call: TorchCall, matrices: Sequence[Array]) -> Outputs:
    """The gradient by what each of *matrices*, of the shape (made, read), was applied to, an axis
    behind batch and channels each."""
    result, rank = call.gradient(), len(call.shape())
    for axis, matrix in enumerate(matrices, start=_BEGIN):
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        turned = call.piece.transpose(result, *order) @ call.constant(matrix)
        result = call.piece.transpose(turned, *order)
    return call.gradients({"0": result})


@row("interpolate.backward", "upsample.backward", "Upsample.backward", source=_SOURCE)
def _interpolate_back(call: TorchCall) -> Outputs:
    how = call.word(3, "mode", "nearest")
    if how not in ("nearest", *_NEIGHBOURS) or call.flag(6, "antialias"):
        raise call.refused(f"resizes by {how}")
    sizes = list(zip(call.gradient_shape()[_BEGIN:], call.shape()[_BEGIN:], strict=True))
    factors = call.argument(2, "scale_factor")
    listed = factors if isinstance(factors, tuple) else (factors,) * len(sizes)
    is_used = not call.flag(5, "recompute_scale_factor")
    times = [factor if is_used and isinstance(factor, int | float) else 0.0 for factor in listed]
    is_even = call.flag(4, "align_corners")
    return _pulled_back(
        call,
        [
            _resizing(
                outputs, read, 1 / by if by else read / outputs, _NEIGHBOURS.get(how, 1), is_even
            )
            for (outputs, read), by in zip(sizes, times, strict=True)
        ],
    )


_NEIGHBOURS = {"linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 4}
"""How many values along an axis each one is made of."""
_CUBIC = -0.75
"""The slope of PyTorch's cubic kernel where it reaches 0 (Keys, 1981, has -0.5)."""


def _shares(apart: Array, neighbours: int) -> Array:
    """What those have that lie so far *apart*, in steps of the values that are read."""
    if neighbours == 2:
        return np.maximum(1.0 - apart, 0.0)
    near = ((_CUBIC + 2) * apart - (_CUBIC + 3)) * apart**2 + 1
    far = _CUBIC * (((apart - 5) * apart + 8) * apart - 4)
    return np.where(apart <= 1, near, np.where(apart < 2, far, 0.0))


def _resizing(outputs: int, read: int, step: float, neighbours: int, is_even: bool) -> Array:
    """Which share of each value that is read each that is made has."""
    result = np.zeros((outputs, read))
    if is_even:
        step = (read - 1) / max(outputs - 1, 1)
    for place in range(outputs):
        if neighbours == 1:
            result[place, min(int(place * step), read - 1)] = 1.0
            continue
        at = place * step if is_even else (place + 0.5) * step - 0.5
        at = max(at, 0.0) if neighbours == 2 else at
        taken = math.floor(at) + np.arange(neighbours) - (neighbours // 2 - 1)
        np.add.at(result[place], taken.clip(0, read - 1), _shares(np.abs(taken - at), neighbours))
    return result


@row("avg_pool1d.backward", "avg_pool2d.backward", "avg_pool3d.backward", source=_SOURCE)
def _average_pool_back(call: TorchCall) -> Outputs:
    kernel = call.integers(1, "kernel_size")
    if call.argument(6, "divisor_override") is not None or call.flag(4, "ceil_mode"):
        raise call.refused("divides by another number, or has windows that reach out")
    counted = call.flag(5, "count_include_pad", default=True)
    sizes = along_axes(call, kernel)
    steps = along_axes(call, call.integers(2, "stride", kernel) or kernel)
    pads = along_axes(call, call.integers(3, "padding", (0,)))
    matrices = []
    for axis, (size, step, pad) in enumerate(zip(sizes, steps, pads, strict=True), start=_BEGIN):
        matrix = np.zeros((call.gradient_shape()[axis], call.shape()[axis]))
        for place, shares in enumerate(matrix):
            begin = place * step - pad
            inside = shares[max(begin, 0) : begin + size]
            inside[:] = 1.0 / (size if counted else len(inside))
        matrices.append(matrix)
    return _pulled_back(call, matrices)


@row(*(f"{pool}{axes}d.backward" for pool in ("adaptive_avg_pool", "AdaptiveAvgPool", "AvgPool")
       for axes in (1, 2, 3)), source=_SOURCE)  # fmt: skip
def _adaptive_pool_back(call: TorchCall) -> Outputs:
    matrices = []
    for outputs, read in zip(call.gradient_shape()[_BEGIN:], call.shape()[_BEGIN:], strict=True):
        matrix = np.zeros((outputs, read))
        for place, shares in enumerate(matrix):
            begin, end = place * read // outputs, math.ceil((place + 1) * read / outputs)
            shares[begin:end] = 1.0 / (end - begin)
        matrices.append(matrix)
    return _pulled_back(call, matrices)


# Ways back of what chooses, and of losses of probabilities.


_LEAST = 1e-12
"""What PyTorch divides the gradient of a binary cross entropy by at least."""


@row("topk.backward", "max.backward", "min.backward", "sort.backward", source=_SOURCE)
def _chosen_back(call: TorchCall) -> Outputs:
    """What came in goes to the places that were chosen."""
    at = 2 if call.type == "topk" else 1
    if call.find("made.1") is None:  # of a whole tensor, or of two
        return back_by_its_row(call)
    axis = call.axis(at, "dim", -1)
    gradient, places = call.gradient(), call.made(1)
    if len(call.gradient_shape()) < len(call.shape()):
        listed = call.piece.ints(axis)
        gradient, places = (call.add("Unsqueeze", each, listed) for each in (gradient, places))
    zeros = call.piece.const(np.zeros(call.shape(), call.working))
    return call.gradients({"0": call.add("ScatterElements", zeros, places, gradient, axis=axis)})


@row("cross_entropy.backward", "nll_loss.backward", source=_SOURCE)
def _cross_entropy_back(call: TorchCall) -> Outputs:
    """The last node of a cross entropy is the pick of logarithms: its gradient is by these, unless
    the call's own was recorded."""
    if call.is_by_argument:
        return back_by_its_row(call)
    shape, labels = call.shape(), call.shape(1, "target")
    at = 6 if call.type == "cross_entropy" else 5
    how = call.word(at, "reduction", "mean")
    smooth = call.type == "cross_entropy" and call.number(7, "label_smoothing", 0.0)
    if len(labels) != 1 or smooth or call.find(2, "weight") is not None or how == "none":
        raise call.refused("weighs, smooths or keeps what it picks")
    target = call.tensor(1, "target")
    ignored = call.constant(call.integer(4, "ignore_index", IGNORED), np.int64)
    counts = ~target.equals(ignored)
    target = call.add("Where", counts, target, call.constant(0, np.int64))
    share = call.piece.cast(counts, call.working)
    if how == "mean":
        share = share / call.reduced("ReduceSum", share, ())
    share = -(share * call.gradient())
    listed = call.piece.ints(1)
    zeros = call.piece.const(np.zeros(shape, call.working))
    share, target = (call.add("Unsqueeze", each, listed) for each in (share, target))
    result = call.add("ScatterElements", zeros, target, share, axis=1)
    return call.gradients({"0": result})


@row("binary_cross_entropy.backward", source=_SOURCE)
def _binary_back(call: TorchCall) -> Outputs:
    share, target = call.operand(0, "input"), call.operand(1, "target")
    rest = share * (1.0 - share)
    slope = share - target
    slope = slope / rest.max(_LEAST)
    return call.gradients({"0": _averaged(call, slope)})


@row("binary_cross_entropy_with_logits.backward", source=_SOURCE)
def _binary_of_logits_back(call: TorchCall) -> Outputs:
    if call.find(6, "pos_weight") is not None:
        raise call.refused("weighs what is true")
    share = call.operand(0, "input").sigmoid()
    slope = share - call.operand(1, "target")
    return call.gradients({"0": _averaged(call, slope)})


def _averaged(call: TorchCall, slope: Expr) -> Expr:
    """The gradient of losses that were weighed, and added up as the call says."""
    weight, how = call.find(2, "weight"), call.word(5, "reduction", "mean")
    result = slope if weight is None else (slope * weight)
    count = int(np.prod(call.shape(), dtype=np.int64)) if how == "mean" else 1
    return result * (1.0 / max(count, 1)) * call.gradient()
