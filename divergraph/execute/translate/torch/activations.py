"""Activations: functions of one number each, and gates of two halves."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.torch.call import TorchCall, row, spelled
from divergraph.execute.translate.torch.elementwise import scaled

_SOURCE = "torch.nn.functional, non-linear activations"
_SELU = 1.6732632423543772, 1.0507009873554805
"""Its alpha, and what all is multiplied by."""


@row(*spelled("silu"), "SiLU", "npu_silu", source=_SOURCE)
def _silu(call: TorchCall) -> Sequence[str]:
    value = call.operand(0, "input")
    return [call.add("Mul", value, call.add("Sigmoid", value))]


@row("gelu", "GELU", "fast_gelu", source=_SOURCE)
def _gelu(call: TorchCall) -> Sequence[str]:
    kind = "tanh" if call.type == "fast_gelu" else call.word(None, "approximate", "none")
    return [call.piece.add("Gelu", call.operand(0, "input"), approximate=kind)]


@row(*spelled("leaky_relu"), "LeakyReLU", source=_SOURCE)
def _leaky(call: TorchCall) -> Sequence[str]:
    slope = call.number(1, "negative_slope", 0.01)
    return [call.add("LeakyRelu", call.operand(0, "input"), alpha=slope)]


@row(*spelled("elu"), "ELU", source=_SOURCE)
def _elu(call: TorchCall) -> Sequence[str]:
    return [call.add("Elu", call.operand(0, "input"), alpha=call.number(1, "alpha", 1.0))]


@row(*spelled("celu"), "CELU", *spelled("selu"), "SELU", source=_SOURCE)
def _scaled_elu(call: TorchCall) -> Sequence[str]:
    value = call.operand(0, "input")
    if "selu" in call.type.lower():
        alpha, factor = _SELU
        return [scaled(call, call.add("Elu", value, alpha=alpha), factor)]
    alpha = call.number(1, "alpha", 1.0)
    return [scaled(call, call.add("Elu", scaled(call, value, 1 / alpha), alpha=1.0), alpha)]


@row("tanhshrink", "Tanhshrink", source=_SOURCE)
def _tanhshrink(call: TorchCall) -> Sequence[str]:
    value = call.operand(0, "input")
    return [call.add("Sub", value, call.add("Tanh", value))]


@row("softshrink", "Softshrink", "hardshrink", "Hardshrink", source=_SOURCE)
def _shrunk(call: TorchCall) -> Sequence[str]:
    value, limit = call.operand(0, "input"), call.constant(call.number(1, "lambd", 0.5))
    kept, zero = value, call.constant(0.0)
    if call.type.lower() == "softshrink":
        kept = call.add("Sub", value, call.add("Mul", call.add("Sign", value), limit))
    outside = call.add("Greater", call.add("Abs", value), limit)
    return [call.add("Where", outside, kept, zero)]


@row(*spelled("relu6"), "ReLU6", *spelled("hardtanh"), "Hardtanh", source=_SOURCE)
def _hardtanh(call: TorchCall) -> Sequence[str]:
    six = "6" in call.type
    low = 0.0 if six else call.number(1, "min_val", -1.0)
    high = 6.0 if six else call.number(2, "max_val", 1.0)
    return [call.add("Clip", call.operand(0, "input"), call.constant(low), call.constant(high))]


@row(*spelled("hardsigmoid"), "Hardsigmoid", source=_SOURCE)
def _hardsigmoid(call: TorchCall) -> Sequence[str]:
    return [call.add("HardSigmoid", call.operand(0, "input"), alpha=1.0 / 6.0, beta=0.5)]


@row("softplus", "Softplus", source=_SOURCE)
def _softplus(call: TorchCall) -> Sequence[str]:
    beta, limit = call.number(1, "beta", 1.0), call.number(2, "threshold", 20.0)
    value = call.operand(0, "input")
    steep = scaled(call, value, beta)
    soft = scaled(call, call.add("Softplus", steep), 1.0 / beta)
    return [call.add("Where", call.add("Greater", steep, call.constant(limit)), value, soft)]


@row("logsigmoid", "LogSigmoid", source=_SOURCE)
def _logsigmoid(call: TorchCall) -> Sequence[str]:
    return [call.add("Neg", call.add("Softplus", call.add("Neg", call.operand(0, "input"))))]


@row("glu", "GLU", source=_SOURCE)
def _glu(call: TorchCall) -> Sequence[str]:
    axis = call.axis(1, "dim", -1)
    one, gate = call.piece.add_many("Split", 2, call.tensor(), axis=axis, num_outputs=2)
    return [call.add("Mul", one, call.add("Sigmoid", gate))]


@row("npu_swiglu", "swiglu", source="torch_npu.npu_swiglu")
def _swiglu(call: TorchCall) -> Sequence[str]:
    axis = call.axis(1, "dim", -1)
    gate, value = call.piece.add_many("Split", 2, call.tensor(), axis=axis, num_outputs=2)
    return [call.add("Mul", call.add("Mul", gate, call.add("Sigmoid", gate)), value)]


@row(
    "dropout", "Dropout", "dropout_", "dropout1d", "dropout2d", source="torch.nn.functional.dropout"
)
def _dropout(call: TorchCall) -> Sequence[str]:
    is_off = call.argument(2, "training") is False or call.argument(1, "p") == 0
    if not is_off:
        raise call.refused("draws random numbers")
    return [call.tensor()]


def _slopes_by_channel(call: TorchCall) -> str:
    rank = len(call.shape())
    weight = call.parameter("weight") or call.tensor(1, "weight")
    return call.piece.reshape(weight, (1, -1, *(1,) * (rank - 2))) if rank > 1 else weight


@row("prelu", "PReLU", source="torch.nn.functional.prelu")
def _prelu(call: TorchCall) -> Sequence[str]:
    return [call.add("PRelu", call.tensor(), _slopes_by_channel(call))]
