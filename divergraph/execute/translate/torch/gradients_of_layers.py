"""Ways back of convolutions, normalisations, lookups and losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.losses import IGNORED
from divergraph.execute.translate.torch.windows import along_axes, max_pooled
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_BEGIN = 2
_LEAST = 1e-12
"""What PyTorch divides the gradient of a binary cross entropy by at least."""


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


@row("conv_transpose1d.backward", "conv_transpose2d.backward", "conv_transpose3d.backward",
     source=_SOURCE)  # fmt: skip
def _conv_transpose_back(call: TorchCall) -> Sequence[str | None]:
    """By image, weight and bias; a transposed convolution goes back as a plain one."""
    image, output, weight = call.shape(), call.gradient_shape(), call.shape(1, "weight")
    if len(image) != len(output) or call.integer(6, "groups", 1) != 1:
        raise call.refused("has groups, or no axis of a batch")
    strides = along_axes(call, call.integers(3, "stride", (1,)))
    pads = along_axes(call, call.integers(4, "padding", (0,)))
    dilations = along_axes(call, call.integers(7, "dilation", (1,)))
    windows = {"pads": pads * 2, "strides": strides, "dilations": dilations}
    by_image = call.add("Conv", call.gradient(), call.tensor(1, "weight"), **windows)
    # batch and channels are exchanged: what came in is looked at by the image, as by a filter
    turned = (1, 0, *range(2, len(image)))
    seen = call.piece.transpose(call.gradient(), *turned)
    by = call.piece.transpose(call.tensor(), *turned)
    swapped = {"pads": pads * 2, "strides": dilations, "dilations": strides}
    by_weight = call.piece.transpose(call.add("Conv", seen, by, **swapped), *turned)
    kept = call.piece.ints(*(0,) * len(weight)), call.piece.ints(*weight)
    by_weight = call.add("Slice", by_weight, *kept)
    by_bias = call.reduced("ReduceSum", call.gradient(), (0, *range(2, len(output))))
    return call.gradients({"0": by_image, "1": by_weight, "2": by_bias})
