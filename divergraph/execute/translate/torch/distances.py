"""Calls that compare vectors: similarity, distances, and the losses of them."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.losses import reduced_losses
from divergraph.execute.translate.torch.reductions import norm_along


@row("cosine_similarity", source="torch.nn.functional.cosine_similarity")
def _cosine(call: TorchCall) -> Sequence[str]:
    axes = (call.axis(2, "dim", 1),)
    one, other = call.operand(0, "x1"), call.operand(1, "x2")
    product = call.reduced("ReduceSum", call.add("Mul", one, other), axes)
    least = call.constant(call.number(3, "eps", 1e-8))
    sizes = (call.add("Max", call.reduced("ReduceL2", each, axes), least) for each in (one, other))
    return [call.add("Div", product, call.add("Mul", *sizes))]


def _distance(
    call: TorchCall, one: str, other: str, order: float, eps: float, *, keep: bool = False
) -> str:
    """The distances of vectors along the last axis."""
    apart = call.add("Sub", one, other)
    if eps:
        apart = call.add("Add", apart, call.constant(eps))
    return norm_along(call, apart, order, (-1,), keep=keep)


@row("pairwise_distance", source="torch.nn.functional.pairwise_distance")
def _pairwise(call: TorchCall) -> Sequence[str]:
    vectors = call.operand(0, "x1"), call.operand(1, "x2")
    order, eps = call.number(2, "p", 2.0), call.number(3, "eps", 1e-6)
    return [_distance(call, *vectors, order, eps, keep=call.flag(4, "keepdim"))]


@row("cdist", source="torch.cdist")
def _between_all(call: TorchCall) -> Sequence[str]:
    one = call.add("Unsqueeze", call.operand(0, "x1"), call.piece.ints(-2))
    other = call.add("Unsqueeze", call.operand(1, "x2"), call.piece.ints(-3))
    return [_distance(call, one, other, call.number(2, "p", 2.0), 0.0)]


def _hinge(call: TorchCall, value: str, margin: float) -> str:
    """What of *value* and a *margin* is above 0."""
    return call.add("Relu", call.add("Add", value, call.constant(margin)))


@row("margin_ranking_loss", source="torch.nn.functional.margin_ranking_loss")
def _ranked(call: TorchCall) -> Sequence[str]:
    apart = call.add("Sub", call.operand(1, "input2"), call.operand(0, "input1"))
    value = call.add("Mul", call.operand(2, "target"), apart)
    return reduced_losses(call, _hinge(call, value, call.number(3, "margin", 0.0)), 6)


@row("triplet_margin_loss", source="torch.nn.functional.triplet_margin_loss")
def _triplets(call: TorchCall) -> Sequence[str]:
    order, eps = call.number(4, "p", 2.0), call.number(5, "eps", 1e-6)
    if call.flag(6, "swap"):
        raise call.refused("swaps anchor and positive")
    anchor = call.operand(0, "anchor")
    near, far = (
        _distance(call, anchor, call.operand(at, name), order, eps)
        for at, name in ((1, "positive"), (2, "negative"))
    )
    value = _hinge(call, call.add("Sub", near, far), call.number(3, "margin", 1.0))
    return reduced_losses(call, value, 9)
