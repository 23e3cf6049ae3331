"""Loss functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row

IGNORED = -100
"""The label that counts for nothing, unless a call names another."""


def reduced_losses(call: TorchCall, losses: str, at: int, weights: str | None = None) -> list[str]:
    """*losses* as the call reduces them; a mean is over the sum of *weights*, if there are any."""
    how = call.word(at, "reduction", "mean")
    if how == "none":
        return [losses]
    if how == "sum" or (how == "mean" and weights is not None):
        total = call.reduced("ReduceSum", losses, ())
        if how == "sum" or weights is None:
            return [total]
        return [call.add("Div", total, call.reduced("ReduceSum", weights, ()))]
    if how != "mean":
        raise call.refused(f"reduces by {how}")
    return [call.reduced("ReduceMean", losses, ())]


@row("cross_entropy", "nll_loss", source="torch.nn.functional.cross_entropy")
def _cross_entropy(call: TorchCall) -> Sequence[str]:
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
        product = call.add("Mul", logs, call.tensor(1, "target"))
        losses = call.add("Neg", call.reduced("ReduceSum", product, (axis,)))
        if call.word(reduction, "reduction", "mean") == "mean":
            total = call.reduced("ReduceSum", losses, ())
            return [call.add("Div", total, call.constant(float(np.prod(labels) / labels[axis])))]
        return reduced_losses(call, losses, reduction)
    target = call.tensor(1, "target")
    counts = call.add("Not", call.add("Equal", target, call.constant(ignored, np.int64)))
    target = call.add("Where", counts, target, call.constant(0, np.int64))
    listed = call.piece.ints(axis)
    picked = call.add("GatherElements", logs, call.add("Unsqueeze", target, listed), axis=axis)
    losses = call.add("Neg", call.add("Squeeze", picked, listed))
    shares = call.piece.cast(counts, call.working)
    if weight is not None:
        shares = call.add("Mul", shares, call.add("Gather", weight, target, axis=0))
    if smoothing:
        if weight is not None:
            raise call.refused("weighs and smooths classes")
        even = call.add("Neg", call.reduced("ReduceMean", logs, (axis,)))
        losses = call.add(
            "Add",
            call.add("Mul", losses, call.constant(1.0 - smoothing)),
            call.add("Mul", even, call.constant(smoothing)),
        )
    return reduced_losses(call, call.add("Mul", losses, shares), reduction, shares)


def _apart(call: TorchCall) -> tuple[str, str]:
    """The input less the target, and the size of that."""
    result = call.add("Sub", call.operand(0, "input"), call.operand(1, "target"))
    return result, call.add("Abs", result)


@row("mse_loss", "l1_loss", source="torch.nn.functional.mse_loss")
def _distance(call: TorchCall) -> Sequence[str]:
    apart, size = _apart(call)
    losses = size if call.type == "l1_loss" else call.add("Mul", apart, apart)
    return reduced_losses(call, losses, 4)


@row("smooth_l1_loss", "huber_loss", source="torch.nn.functional.smooth_l1_loss")
def _smooth(call: TorchCall) -> Sequence[str]:
    is_huber = call.type == "huber_loss"
    beta = call.number(3 if is_huber else 5, "delta" if is_huber else "beta", 1.0)
    apart, size = _apart(call)
    half = call.constant(0.5 if is_huber else 0.5 / beta)
    near = call.add("Mul", call.add("Mul", apart, apart), half)
    far = call.add("Sub", size, call.constant(0.5 * beta))
    far = call.add("Mul", far, call.constant(beta)) if is_huber else far
    losses = call.add("Where", call.add("Less", size, call.constant(beta)), near, far)
    return reduced_losses(call, losses, 2 if is_huber else 4)


@row("binary_cross_entropy", source="torch.nn.functional.binary_cross_entropy")
def _binary(call: TorchCall) -> Sequence[str]:
    share, target = call.operand(0, "input"), call.operand(1, "target")
    one, least = call.constant(1.0), call.constant(-100.0)
    yes = call.add("Max", call.add("Log", share), least)
    no = call.add("Max", call.add("Log", call.add("Sub", one, share)), least)
    both = call.add(
        "Add",
        call.add("Mul", target, yes),
        call.add("Mul", call.add("Sub", one, target), no),
    )
    return _weighed(call, call.add("Neg", both))


@row(
    "binary_cross_entropy_with_logits",
    source="torch.nn.functional.binary_cross_entropy_with_logits",
)
def _binary_of_logits(call: TorchCall) -> Sequence[str]:
    if call.find(6, "pos_weight") is not None:
        raise call.refused("weighs what is true")
    score, target = call.operand(0, "input"), call.operand(1, "target")
    soft = call.add("Softplus", call.add("Neg", call.add("Abs", score)))
    least = call.add("Max", score, call.constant(0.0))
    result = call.add("Add", call.add("Sub", least, call.add("Mul", score, target)), soft)
    return _weighed(call, result)


def _weighed(call: TorchCall, losses: str) -> list[str]:
    weight = call.find(2, "weight")
    result = losses if weight is None else call.add("Mul", losses, weight)
    return reduced_losses(call, result, 5)


@row("kl_div", source="torch.nn.functional.kl_div")
def _divergence(call: TorchCall) -> Sequence[str]:
    own, target = call.operand(0, "input"), call.operand(1, "target")
    if call.flag(5, "log_target"):
        logs, target = target, call.add("Exp", target)
    else:
        least = call.constant(np.finfo(np.float32).tiny)
        logs = call.add("Log", call.add("Max", target, least))
    losses = call.add("Mul", target, call.add("Sub", logs, own))
    if call.word(4, "reduction", "mean") == "batchmean":
        total = call.reduced("ReduceSum", losses, ())
        return [call.add("Div", total, call.constant(float(call.shape()[0])))]
    return reduced_losses(call, losses, 4)


@row("poisson_nll_loss", source="torch.nn.functional.poisson_nll_loss")
def _poisson(call: TorchCall) -> Sequence[str]:
    own, target = call.operand(0, "input"), call.operand(1, "target")
    if call.flag(3, "full"):
        raise call.refused("adds Stirling's term")
    if call.flag(2, "log_input", default=True):
        rate, logs = call.add("Exp", own), own
    else:
        least = call.constant(call.number(5, "eps", 1e-8))
        rate, logs = own, call.add("Log", call.add("Add", own, least))
    return reduced_losses(call, call.add("Sub", rate, call.add("Mul", target, logs)), 7)


@row("gaussian_nll_loss", source="torch.nn.functional.gaussian_nll_loss")
def _gaussian(call: TorchCall) -> Sequence[str]:
    apart, _size = _apart(call)
    least = call.constant(call.number(4, "eps", 1e-6))
    spread = call.add("Max", call.operand(2, "var"), least)
    share = call.add("Div", call.add("Mul", apart, apart), spread)
    losses = call.add("Mul", call.add("Add", call.add("Log", spread), share), call.constant(0.5))
    if call.flag(3, "full"):
        half = call.constant(0.5 * math.log(2 * math.pi))
        losses = call.add("Add", losses, half)
    return reduced_losses(call, losses, 5)
