"""Ways back of convolutions, normalisations, lookups and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.losses import IGNORED
from divergraph.execute.translate.torch.normalising import EPS, normalised
from divergraph.execute.translate.torch.windows import max_pooled
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_BEGIN = 2


@row("conv1d.backward", "conv2d.backward", "conv3d.backward", source=_SOURCE)
def _conv_back(call: TorchCall) -> Sequence[str | None]:
    """By image, weight and bias: the node of a convolution has them in this order."""
    image, filters, made = call.shape(), call.shape(1, "weight"), call.gradient_shape()
    if len(image) != len(filters) or isinstance(call.argument(4, "padding"), str):
        raise call.refused("has no axis of a batch, or pads by a word")
    axes = len(image) - _BEGIN

    def along(at: int, keyword: str, default: int) -> tuple[int, ...]:
        found = call.integers(at, keyword, (default,))
        return found if len(found) == axes else found * axes

    pads = along(4, "padding", 0)
    over = SlidingWindows(
        filters[_BEGIN:], along(3, "stride", 1), along(5, "dilation", 1), pads, pads, made[_BEGIN:]
    )
    # With attributes that were changed to try a cause, onnx would end the process over such sizes.
    if over.out != _windows(image[_BEGIN:], over):
        raise call.refused(f"has a gradient of {over.out} windows, not {_windows(image[2:], over)}")
    groups = call.integer(6, "groups", 1)
    gradient = call.gradient()
    found = {"0": put_back(*(call.piece, gradient, call.tensor(1, "weight"), over),
                           image[_BEGIN:], groups)}  # fmt: skip
    found["1"] = _by_filters(call, over, groups)
    found["2"] = call.reduced("ReduceSum", gradient, (0, *range(_BEGIN, len(image))))
    return call.gradients(found)


def _windows(sizes: Sequence[int], over: SlidingWindows) -> tuple[int, ...]:
    """How many windows fit on an image."""
    return tuple(
        (size + 2 * pad - dilation * (kernel - 1) - 1) // max(stride, 1) + 1
        for size, pad, dilation, kernel, stride in zip(
            sizes, over.begin, over.dilations, over.size, over.strides, strict=True
        )
    )


def _by_filters(call: TorchCall, over: SlidingWindows, groups: int) -> str:
    """The gradient by the weight, group by group: batch and channels are exchanged, so that the
    batch is what is added up."""
    turned = (1, 0, *range(_BEGIN, len(call.shape())))
    parts = []
    images, gradients = (
        call.piece.add_many("Split", groups, name, axis=1, num_outputs=groups)
        for name in (call.tensor(), call.gradient())
    )
    for image, gradient in zip(images, gradients, strict=True):
        seen = seen_by_filters(
            call.piece,
            call.piece.transpose(image, *turned),
            call.piece.transpose(gradient, *turned),
            over,
            1,
        )
        parts.append(call.piece.transpose(seen, *turned))
    return parts[0] if groups == 1 else call.add("Concat", *parts, axis=0)


def _normalised_back(
    call: TorchCall, value: str, gradient: str, axes: Sequence[int], eps: float
) -> tuple[str, str]:
    """What is normalised along *axes*, and the gradient by *value*, of that by what is."""
    normal, root = normalised(call, value, axes, eps)
    average = call.reduced("ReduceMean", gradient, axes, keep=True)
    along = call.reduced("ReduceMean", call.add("Mul", gradient, normal), axes, keep=True)
    rest = call.add("Sub", call.add("Sub", gradient, average), call.add("Mul", normal, along))
    return normal, call.add("Div", rest, root)


@row("layer_norm.backward", source=_SOURCE)
def _layer_norm_back(call: TorchCall) -> Sequence[str | None]:
    count, rank = len(call.integers(1, "normalized_shape")), len(call.shape())
    found = _affine_back(
        call,
        call.find(2, "weight"),
        tuple(range(rank - count, rank)),
        tuple(range(rank - count)),
        call.number(4, "eps", EPS),
    )
    return call.gradients(found)


@row("LayerNorm.parameters_grad", source="torch.nn.LayerNorm")
def _layer_norm_parameters(call: TorchCall) -> Sequence[str | None]:
    count, rank = len(call.shape("parameters.weight", "")), len(call.shape())
    axes, others = tuple(range(rank - count, rank)), tuple(range(rank - count))
    found = _affine_back(call, call.parameter("weight"), axes, others, EPS)
    return call.gradients({"weight": found["1"], "bias": found["2"]})


def _affine_back(
    call: TorchCall, weight: str | None, axes: Sequence[int], others: Sequence[int], eps: float
) -> dict[str, str]:
    gradient = call.gradient()
    scaled = gradient if weight is None else call.add("Mul", gradient, weight)
    normal, by_value = _normalised_back(call, call.tensor(), scaled, axes, eps)
    by_weight = call.reduced("ReduceSum", call.add("Mul", gradient, normal), others)
    return {"0": by_value, "1": by_weight, "2": call.reduced("ReduceSum", gradient, others)}


@row("batch_norm.backward", source=_SOURCE)
def _batch_norm_back(call: TorchCall) -> Sequence[str | None]:
    if not call.flag(5, "training"):
        raise call.refused("takes what was seen before, of which the dump has only the end")
    rank = len(call.shape())
    axes = (0, *range(_BEGIN, rank))
    weight = call.find(3, "weight")
    spread = None if weight is None else call.piece.reshape(weight, (1, -1, *(1,) * (rank - 2)))
    return call.gradients(_affine_back(call, spread, axes, axes, call.number(7, "eps", EPS)))


@row("group_norm.backward", source=_SOURCE)
def _group_norm_back(call: TorchCall) -> Sequence[str | None]:
    shape, groups = call.shape(), call.integer(1, "num_groups")
    grouped, by_channel = (shape[0], groups, -1), (1, -1, *(1,) * (len(shape) - _BEGIN))
    gradient, weight = call.gradient(), call.find(2, "weight")
    scaled = gradient
    if weight is not None:
        scaled = call.add("Mul", gradient, call.piece.reshape(weight, by_channel))
    value, into = (call.piece.reshape(name, grouped) for name in (call.tensor(), scaled))
    normal, by_value = _normalised_back(call, value, into, (2,), call.number(4, "eps", EPS))
    by_value = call.piece.reshape(by_value, shape)
    others = (0, *range(_BEGIN, len(shape)))
    product = call.add("Mul", gradient, call.piece.reshape(normal, shape))
    by_weight = call.reduced("ReduceSum", product, others)
    by_bias = call.reduced("ReduceSum", gradient, others)
    return call.gradients({"0": by_value, "1": by_weight, "2": by_bias})


@row("cumsum.backward", source=_SOURCE)
def _cumsum_back(call: TorchCall) -> Sequence[str | None]:
    wide = call.piece.cast(call.gradient(), np.float64)
    axis = np.array(call.axis(1, "dim"), np.int64)
    return call.gradients({"0": call.cast(call.add("CumSum", wide, axis, reverse=1))})


@row("topk.backward", "max.backward", "min.backward", "sort.backward", source=_SOURCE)
def _chosen_back(call: TorchCall) -> Sequence[str | None]:
    """What came in goes to the places that were chosen."""
    at = 2 if call.type == "topk" else 1
    if call.find("made.1") is None:
        raise call.refused("chose of a whole tensor")
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
    found = call.add("ScatterElements", zeros, target, share, axis=1)
    if call.type == "cross_entropy" and call.is_by_argument:
        total = call.reduced("ReduceSum", found, (1,), keep=True)
        shares = call.add("Softmax", call.tensor(), axis=1)
        found = call.add("Sub", found, call.add("Mul", shares, total))
    return call.gradients({"0": found})


@row("max_pool1d.backward", "max_pool2d.backward", "max_pool3d.backward", source=_SOURCE)
def _max_pool_back(call: TorchCall) -> Sequence[str | None]:
    """Each number of the gradient goes to the place of the largest, which windows may share."""
    flat = call.piece.ints(-1)
    places = call.add("Reshape", max_pooled(call)[1], flat)
    gradient = call.piece.cast(call.add("Reshape", call.gradient(), flat), np.float64)
    nothing = np.zeros(int(np.prod(call.shape(), dtype=np.int64)))
    total = call.add("ScatterElements", nothing, places, gradient, axis=0, reduction="add")
    return call.gradients({"0": call.piece.reshape(call.cast(total), call.shape())})
