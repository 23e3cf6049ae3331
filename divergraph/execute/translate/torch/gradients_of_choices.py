"""Ways back of what chooses, and of losses of probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.losses import IGNORED
from divergraph.execute.translate.torch.reverse import back_by_its_row

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_LEAST = 1e-12
"""What PyTorch divides the gradient of a binary cross entropy by at least."""


@row("topk.backward", "max.backward", "min.backward", "sort.backward", source=_SOURCE)
def _chosen_back(call: TorchCall) -> Sequence[str | None]:
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
def _cross_entropy_back(call: TorchCall) -> Sequence[str | None]:
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
    counts = call.add("Not", call.add("Equal", target, ignored))
    target = call.add("Where", counts, target, call.constant(0, np.int64))
    share = call.piece.cast(counts, call.working)
    if how == "mean":
        share = call.add("Div", share, call.reduced("ReduceSum", share, ()))
    share = call.add("Neg", call.add("Mul", share, call.gradient()))
    listed = call.piece.ints(1)
    zeros = call.piece.const(np.zeros(shape, call.working))
    share, target = (call.add("Unsqueeze", each, listed) for each in (share, target))
    result = call.add("ScatterElements", zeros, target, share, axis=1)
    return call.gradients({"0": result})


@row("binary_cross_entropy.backward", source=_SOURCE)
def _binary_back(call: TorchCall) -> Sequence[str | None]:
    share, target = call.operand(0, "input"), call.operand(1, "target")
    rest = call.add("Mul", share, call.add("Sub", call.constant(1.0), share))
    slope = call.add("Sub", share, target)
    slope = call.add("Div", slope, call.add("Max", rest, call.constant(_LEAST)))
    return call.gradients({"0": _averaged(call, slope)})


@row("binary_cross_entropy_with_logits.backward", source=_SOURCE)
def _binary_of_logits_back(call: TorchCall) -> Sequence[str | None]:
    if call.find(6, "pos_weight") is not None:
        raise call.refused("weighs what is true")
    share = call.add("Sigmoid", call.operand(0, "input"))
    slope = call.add("Sub", share, call.operand(1, "target"))
    return call.gradients({"0": _averaged(call, slope)})


def _averaged(call: TorchCall, slope: str) -> str:
    """The gradient of losses that were weighed, and added up as the call says."""
    weight, how = call.find(2, "weight"), call.word(5, "reduction", "mean")
    result = slope if weight is None else call.add("Mul", slope, weight)
    count = int(np.prod(call.shape(), dtype=np.int64)) if how == "mean" else 1
    scaled = call.add("Mul", result, call.constant(1.0 / max(count, 1)))
    return call.add("Mul", scaled, call.gradient())
