"""Ways back of activations that bend or gate, of losses of probabilities, of norms and of
transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row, spelled
from divergraph.execute.translate.torch.windows import along_axes

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_Slope: TypeAlias = Callable[[TorchCall, str], str]
_LEAST = 1e-12
"""What PyTorch divides the gradient of a binary cross entropy by at least."""


def _between(call: TorchCall, value: str, low: float, high: float) -> str:
    """1 where *value* is between two numbers, else 0."""
    above = call.add("Greater", value, call.constant(low))
    return call.cast(call.add("And", above, call.add("Less", value, call.constant(high))))


def _leaky(call: TorchCall, value: str) -> str:
    slope = call.constant(call.number(1, "negative_slope", 0.01))
    above = call.add("Greater", value, call.constant(0.0))
    return call.add("Where", above, call.constant(1.0), slope)


def _elu(call: TorchCall, value: str) -> str:
    alpha = call.constant(call.number(1, "alpha", 1.0))
    below = call.add("Mul", alpha, call.add("Exp", value))
    above = call.add("Greater", value, call.constant(0.0))
    return call.add("Where", above, call.constant(1.0), below)


def _hardtanh(call: TorchCall, value: str) -> str:
    low, high = call.number(1, "min_val", -1.0), call.number(2, "max_val", 1.0)
    return _between(call, value, low, high)


def _hardswish(call: TorchCall, value: str) -> str:
    rise = call.add("Add", call.add("Mul", value, call.constant(1 / 3)), call.constant(0.5))
    above = call.add("GreaterOrEqual", value, call.constant(3.0))
    below = call.add("LessOrEqual", value, call.constant(-3.0))
    rest = call.add("Where", below, call.constant(0.0), rise)
    return call.add("Where", above, call.constant(1.0), rest)


def _mish(call: TorchCall, value: str) -> str:
    bent, gate = call.add("Tanh", call.add("Softplus", value)), call.add("Sigmoid", value)
    rest = call.add("Sub", call.constant(1.0), call.add("Mul", bent, bent))
    return call.add("Add", bent, call.add("Mul", call.add("Mul", value, gate), rest))


def _log1p(call: TorchCall, value: str) -> str:
    return call.add("Reciprocal", call.add("Add", value, call.constant(1.0)))


_SLOPES: tuple[tuple[tuple[str, ...], _Slope], ...] = (
    (spelled("leaky_relu"), _leaky),
    (spelled("elu"), _elu),
    (spelled("hardtanh"), _hardtanh),
    (spelled("relu6"), lambda call, value: _between(call, value, 0.0, 6.0)),
    (spelled("hardswish"), _hardswish),
    (spelled("mish"), _mish),
    (spelled("log1p"), _log1p),
    (spelled("square"), lambda call, value: call.add("Mul", value, call.constant(2.0))),
    (spelled("logsigmoid"), lambda call, value: call.add("Sigmoid", call.add("Neg", value))),
)


def _of_slope(slope: _Slope) -> Callable[[TorchCall], Sequence[str | None]]:
    def output(call: TorchCall) -> Sequence[str | None]:
        by_value = slope(call, call.operand(0, "input"))
        return call.gradients({"0": call.add("Mul", call.gradient(), by_value)})

    return output


for _types, _slope in _SLOPES:
    row(*(f"{name}.backward" for name in _types), source=_SOURCE)(_of_slope(_slope))


@row("clamp.backward", "clamp_.backward", "clamp_min.backward", "clamp_max.backward",
     "clip.backward", source=_SOURCE)  # fmt: skip
def _clamp_back(call: TorchCall) -> Sequence[str | None]:
    """What lies on a limit passes, too."""
    if call.find(1, "min") or call.find(2, "max"):
        raise call.refused("is limited by tensors")
    value, result = call.operand(0, "input"), call.gradient()
    is_most = call.type == "clamp_max"
    limits = (
        ("LessOrEqual", call.argument(1 if is_most else 2, "max")),
        ("GreaterOrEqual", None if is_most else call.argument(1, "min")),
    )
    for kind, limit in limits:
        if isinstance(limit, int | float):
            inside = call.add(kind, value, call.constant(limit))
            result = call.add("Where", inside, result, call.constant(0.0))
    return call.gradients({"0": result})


@row("glu.backward", source=_SOURCE)
def _glu_back(call: TorchCall) -> Sequence[str | None]:
    axis, gradient = call.axis(1, "dim", -1), call.gradient()
    value, gate = call.piece.add_many("Split", 2, call.tensor(), axis=axis, num_outputs=2)
    share = call.add("Sigmoid", gate)
    rest = call.add("Mul", share, call.add("Sub", call.constant(1.0), share))
    by_gate = call.add("Mul", gradient, call.add("Mul", value, rest))
    both = call.add("Concat", call.add("Mul", gradient, share), by_gate, axis=axis)
    return call.gradients({"0": both})


def _slopes_by_channel(call: TorchCall) -> str:
    rank, weight = len(call.shape()), call.tensor(1, "weight")
    return call.piece.reshape(weight, (1, -1, *(1,) * (rank - 2))) if rank > 1 else weight


@row("prelu", source="torch.nn.functional.prelu")
def _prelu(call: TorchCall) -> Sequence[str]:
    return [call.add("PRelu", call.tensor(), _slopes_by_channel(call))]


@row("prelu.backward", source=_SOURCE)
def _prelu_back(call: TorchCall) -> Sequence[str | None]:
    value, gradient, zero = call.tensor(), call.gradient(), call.constant(0.0)
    above = call.add("Greater", value, zero)
    scaled = call.add("Mul", gradient, _slopes_by_channel(call))
    product = call.add("Where", above, zero, call.add("Mul", gradient, value))
    spread = call.shape(1, "weight")
    shared = (1, spread[0], *(1,) * (len(call.shape()) - 2)) if len(call.shape()) > 1 else spread
    by_weight = call.piece.reshape(call.summed_to(product, call.shape(), shared), spread)
    return call.gradients({"0": call.add("Where", above, gradient, scaled), "1": by_weight})


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
