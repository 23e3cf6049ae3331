"""Loss functions."""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.reductions import norm_along

IGNORED = -100
"""The label that counts for nothing, unless a call names another."""


def reduced_losses(
    call: TorchCall, losses: Expr, at: int, weights: Expr | None = None
) -> list[Expr]:
    """*losses* as the call reduces them; a mean is over the sum of *weights*, if there are any."""
    how = call.word(at, "reduction", "mean")
    if how == "none":
        return [losses]
    if how == "sum" or (how == "mean" and weights is not None):
        total = call.reduced("ReduceSum", losses, ())
        if how == "sum" or weights is None:
            return [total]
        return [total / call.reduced("ReduceSum", weights, ())]
    if how != "mean":
        raise call.refused(f"reduces by {how}")
    return [call.reduced("ReduceMean", losses, ())]


@row("cross_entropy", "nll_loss", source="torch.nn.functional.cross_entropy")
def _cross_entropy(call: TorchCall) -> Outputs:
    is_scores = call.type == "cross_entropy"
    shape, labels = call.shape(), call.shape(1, "target")
    axis = 1 if len(shape) > 1 else 0
    value = call.tensor()
    logs = call.add("LogSoftmax", value, axis=axis) if is_scores else value
    smoothing = call.number(7, "label_smoothing", 0.0) if is_scores else 0.0
    ignored = call.integer(4, "ignore_index", IGNORED)
    reduction = 6 if is_scores else 5
    weight = call.find(2, "weight")
    if call.dtype(1, "target").kind == "f" or len(labels) == len(shape):
        if weight is not None or smoothing:
            raise call.refused("weighs or smooths shares of classes")
        product = logs * call.tensor(1, "target")
        losses = -call.reduced("ReduceSum", product, (axis,))
        if call.word(reduction, "reduction", "mean") == "mean":
            total = call.reduced("ReduceSum", losses, ())
            return [total / float(np.prod(labels) / labels[axis])]
        return reduced_losses(call, losses, reduction)
    target = call.tensor(1, "target")
    counts = ~target.equals(call.constant(ignored, np.int64))
    target = call.add("Where", counts, target, call.constant(0, np.int64))
    listed = call.piece.ints(axis)
    picked = call.add("GatherElements", logs, call.add("Unsqueeze", target, listed), axis=axis)
    losses = -call.add("Squeeze", picked, listed)
    shares = call.piece.cast(counts, call.working)
    if weight is not None:
        shares = shares * call.add("Gather", weight, target, axis=0)
    if smoothing:
        if weight is not None:
            raise call.refused("weighs and smooths classes")
        even = -call.reduced("ReduceMean", logs, (axis,))
        losses = losses * (1.0 - smoothing) + even * smoothing
    return reduced_losses(call, losses * shares, reduction, shares)


def _apart(call: TorchCall) -> tuple[Expr, Expr]:
    """The input less the target, and the size of that."""
    result = call.operand(0, "input") - call.operand(1, "target")
    return result, abs(result)


@row("mse_loss", "l1_loss", source="torch.nn.functional.mse_loss")
def _distance(call: TorchCall) -> Outputs:
    apart, size = _apart(call)
    losses = size if call.type == "l1_loss" else (apart * apart)
    return reduced_losses(call, losses, 4)


@row("smooth_l1_loss", "huber_loss", source="torch.nn.functional.smooth_l1_loss")
def _smooth(call: TorchCall) -> Outputs:
    is_huber = call.type == "huber_loss"
    beta = call.number(3 if is_huber else 5, "delta" if is_huber else "beta", 1.0)
    apart, size = _apart(call)
    half = call.constant(0.5 if is_huber else 0.5 / beta)
    near = apart * apart * half
    far = size - 0.5 * beta
    far = (far * beta) if is_huber else far
    losses = call.add("Where", size < beta, near, far)
    return reduced_losses(call, losses, 2 if is_huber else 4)


@row("binary_cross_entropy", source="torch.nn.functional.binary_cross_entropy")
def _binary(call: TorchCall) -> Outputs:
    share, target = call.operand(0, "input"), call.operand(1, "target")
    one, least = call.constant(1.0), call.constant(-100.0)
    yes = share.log().max(least)
    both = target * yes + (one - target) * (one - share).log().max(least)
    return _weighed(call, -both)


@row(
    "binary_cross_entropy_with_logits",
    source="torch.nn.functional.binary_cross_entropy_with_logits",
)
def _binary_of_logits(call: TorchCall) -> Outputs:
    if call.find(6, "pos_weight") is not None:
        raise call.refused("weighs what is true")
    score, target = call.operand(0, "input"), call.operand(1, "target")
    result = score.max(0.0) - score * target + (-abs(score)).softplus()
    return _weighed(call, result)


def _weighed(call: TorchCall, losses: Expr) -> list[Expr]:
    weight = call.find(2, "weight")
    result = losses if weight is None else (losses * weight)
    return reduced_losses(call, result, 5)


@row("kl_div", source="torch.nn.functional.kl_div")
def _divergence(call: TorchCall) -> Outputs:
    own, target = call.operand(0, "input"), call.operand(1, "target")
    if call.flag(5, "log_target"):
        logs, target = target, target.exp()
    else:
        least = call.constant(np.finfo(np.float32).tiny)
        logs = target.max(least).log()
    losses = target * (logs - own)
    if call.word(4, "reduction", "mean") == "batchmean":
        total = call.reduced("ReduceSum", losses, ())
        return [total / float(call.shape()[0])]
    return reduced_losses(call, losses, 4)


@row("poisson_nll_loss", source="torch.nn.functional.poisson_nll_loss")
def _poisson(call: TorchCall) -> Outputs:
    own, target = call.operand(0, "input"), call.operand(1, "target")
    if call.flag(3, "full"):
        raise call.refused("adds Stirling's term")
    if call.flag(2, "log_input", default=True):
        rate, logs = own.exp(), own
    else:
        least = call.constant(call.number(5, "eps", 1e-8))
        rate, logs = own, (own + least).log()
    return reduced_losses(call, rate - target * logs, 7)


@row("gaussian_nll_loss", source="torch.nn.functional.gaussian_nll_loss")
def _gaussian(call: TorchCall) -> Outputs:
    apart, _size = _apart(call)
    least = call.constant(call.number(4, "eps", 1e-6))
    spread = call.operand(2, "var").max(least)
    losses = (spread.log() + apart * apart / spread) * 0.5
    if call.flag(3, "full"):
        half = call.constant(0.5 * math.log(2 * math.pi))
        losses = losses + half
    return reduced_losses(call, losses, 5)


# Calls that compare vectors: similarity, distances, and the losses of them.


@row("cosine_similarity", source="torch.nn.functional.cosine_similarity")
def _cosine(call: TorchCall) -> Outputs:
    axes = (call.axis(2, "dim", 1),)
    one, other = call.operand(0, "x1"), call.operand(1, "x2")
    product = call.reduced("ReduceSum", one * other, axes)
    least = call.constant(call.number(3, "eps", 1e-8))
    sizes = (call.reduced("ReduceL2", each, axes).max(least) for each in (one, other))
    return [product / call.add("Mul", *sizes)]


def _vector_distance(
    call: TorchCall, one: Expr, other: Expr, order: float, eps: float, *, keep: bool = False
) -> Expr:
    """The distances of vectors along the last axis."""
    apart = one - other
    if eps:
        apart = apart + eps
    return norm_along(call, apart, order, (-1,), keep=keep)


@row("pairwise_distance", source="torch.nn.functional.pairwise_distance")
def _pairwise(call: TorchCall) -> Outputs:
    vectors = call.operand(0, "x1"), call.operand(1, "x2")
    order, eps = call.number(2, "p", 2.0), call.number(3, "eps", 1e-6)
    return [_vector_distance(call, *vectors, order, eps, keep=call.flag(4, "keepdim"))]


@row("cdist", source="torch.cdist")
def _between_all(call: TorchCall) -> Outputs:
    one = call.add("Unsqueeze", call.operand(0, "x1"), call.piece.ints(-2))
    other = call.add("Unsqueeze", call.operand(1, "x2"), call.piece.ints(-3))
    return [_vector_distance(call, one, other, call.number(2, "p", 2.0), 0.0)]


def _hinge(value: Expr, margin: float) -> Expr:
    """What of *value* and a *margin* is above 0."""
    return (value + margin).relu()


@row("margin_ranking_loss", source="torch.nn.functional.margin_ranking_loss")
def _ranked(call: TorchCall) -> Outputs:
    apart = call.operand(1, "input2") - call.operand(0, "input1")
    value = call.operand(2, "target") * apart
    return reduced_losses(call, _hinge(value, call.number(3, "margin", 0.0)), 6)


@row("triplet_margin_loss", source="torch.nn.functional.triplet_margin_loss")
def _triplets(call: TorchCall) -> Outputs:
    order, eps = call.number(4, "p", 2.0), call.number(5, "eps", 1e-6)
    if call.flag(6, "swap"):
        raise call.refused("swaps anchor and positive")
    anchor = call.operand(0, "anchor")
    near, far = (
        _vector_distance(call, anchor, call.operand(at, name), order, eps)
        for at, name in ((1, "positive"), (2, "negative"))
    )
    value = _hinge(near - far, call.number(3, "margin", 1.0))
    return reduced_losses(call, value, 9)
