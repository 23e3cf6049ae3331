"""Calls that compute each element by itself, or elements of several tensors at one place; and
activations."""

from __future__ import annotations

import math

import numpy as np

from divergraph.execute.translate import formulas
from divergraph.execute.translate.formulas import clip, square, where
from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row, spelled
from divergraph.execute.translate.torch.call import formulas as calls
from divergraph.execute.translate.torch.indexing import places_where

_MATH = "torch, pointwise ops"
_ACTIVATIONS = "torch.nn.functional, non-linear activations"
SAME = {
    **{kind.lower(): kind for kind in formulas.ONE_NODE},
    **{kind.lower(): kind for kind in ("Exp", "Log", "Mish", "HardSwish")},
}
"""Functions that one ONNX op of one input computes."""
_MODULES = {
    **{kind: kind for kind in ("Tanh", "Sigmoid", "Softsign", "Mish")},
    "ReLU": "Relu",
    "Hardswish": "HardSwish",
    "__neg__": "Neg",
    "__abs__": "Abs",
    "absolute": "Abs",
}


def _same(onnx_kind: str, *types: str) -> None:
    row(*types, source=_MATH)(lambda call: [call.add(onnx_kind, call.operand(0, "input"))])


for _name, _kind in SAME.items():
    _same(_kind, *spelled(_name))
for _name, _kind in _MODULES.items():
    _same(_kind, _name)


def scaled(value: Expr, by: float) -> Expr:
    """*value* times a number."""
    return value if by == 1 else value * by


def _float64(value: Expr) -> Expr:
    return value.cast(np.float64)


def _floored(x: Expr, y: Expr) -> Expr:
    """The quotient rounded down; in double, so that it is the right whole number."""
    return (_float64(x) / _float64(y)).floor()


def _divided(x: Expr, other: Expr, *, rounding_mode: str = "") -> Expr:
    result = x / other
    if not rounding_mode:
        return result
    return result.floor() if rounding_mode == "floor" else result.sign() * abs(result).floor()


def _angle(y: Expr, other: Expr) -> Expr:
    """The angle of the point (other, y)."""
    turn = where(y < 0, -y.piece.const(np.array(math.pi, y.dtype)), math.pi)
    return (y / other).atan() + where(other < 0, turn, 0)


calls(
    {
        "rsqrt rsqrt_": lambda x: x.sqrt().reciprocal(),
        "square square_": square,
        "log2 log2_": lambda x: x.log() / math.log(2.0),
        "log10 log10_": lambda x: x.log() / math.log(10.0),
        "exp2 exp2_": lambda x: (x * math.log(2.0)).exp(),
        # Of small values in double: 1 + x alone would round x away.
        "log1p log1p_": lambda x: (_float64(x) + 1).log().cast(x.dtype),
        "expm1 expm1_": lambda x: (_float64(x).exp() - 1).cast(x.dtype),
        "add add_ __add__ __iadd__ __radd__ AddBackward": lambda x, other, *, alpha=1: (
            x + scaled(other, alpha)
        ),
        "sub sub_ subtract subtract_ __sub__ __isub__": lambda x, other, *, alpha=1: (
            x - scaled(other, alpha)
        ),
        "__rsub__ rsub": lambda x, other, *, alpha=1: other - scaled(x, alpha),
        "mul mul_ multiply multiply_ __mul__ __imul__ __rmul__": lambda x, other: x * other,
        "div div_ divide divide_ true_divide true_divide_ __truediv__ __itruediv__": _divided,
        "__div__ __idiv__": _divided,
        "__rtruediv__ __rdiv__": lambda x, other: other / x,
        "floor_divide floor_divide_ __floordiv__ __ifloordiv__": lambda x, other: _floored(
            x, other
        ).cast(x.dtype),
        "remainder remainder_ __mod__": lambda x, other: (
            x - _floored(x, other).cast(x.dtype) * other
        ),
        "pow pow_ __pow__ __ipow__ float_power": lambda x, exponent: x**exponent,
        "__rpow__": lambda x, other: other**x,
        "atan2 atan2_": _angle,
        "hypot": lambda x, other: (x * x + other * other).sqrt(),
        "logaddexp": lambda x, other: x.max(other) + (-abs(x - other)).softplus(),
        "xlogy": lambda x, other: where(x.equals(0), 0, x * other.log()),
        "maximum": lambda x, other: x.max(other),
        "minimum": lambda x, other: x.min(other),
        # Steps of optimizers: the dump has the value before the call.
        "lerp lerp_": lambda x, end, weight: x + weight * (end - x),
        "addcmul addcmul_": lambda x, tensor1, tensor2, *, value=1.0: (
            x + scaled(tensor1 * tensor2, value)
        ),
        "addcdiv addcdiv_": lambda x, tensor1, tensor2, *, value=1.0: (
            x + scaled(tensor1 / tensor2, value)
        ),
    },
    _MATH,
)


def _elu(x: Expr, alpha: float = 1.0) -> Expr:
    return x.piece.add("Elu", x, alpha=alpha)


def _selu(x: Expr) -> Expr:
    """Its alpha, and what all is multiplied by."""
    return _elu(x, 1.6732632423543772) * 1.0507009873554805


def _softplus(x: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    steep = scaled(x, beta)
    return where(steep > threshold, x, scaled(steep.softplus(), 1.0 / beta))


def _halves(call: TorchCall) -> tuple[Expr, Expr]:
    axis = call.axis(1, "dim", -1)
    one, other = call.piece.add_many("Split", 2, call.tensor(), axis=axis, num_outputs=2)
    return one, other


calls(
    {
        "silu silu_ SiLU npu_silu": lambda x: x * x.sigmoid(),
        "leaky_relu leaky_relu_ LeakyReLU": lambda x, negative_slope=0.01: x.piece.add(
            "LeakyRelu", x, alpha=negative_slope
        ),
        "elu elu_ ELU": _elu,
        "selu selu_ SELU": _selu,
        "celu celu_ CELU": lambda x, alpha=1.0: scaled(_elu(scaled(x, 1 / alpha)), alpha),
        "tanhshrink Tanhshrink": lambda x: x - x.tanh(),
        "softshrink Softshrink": lambda x, lambd=0.5: where(
            abs(x) > lambd, x - x.sign() * lambd, 0
        ),
        "hardshrink Hardshrink": lambda x, lambd=0.5: where(abs(x) > lambd, x, 0),
        "relu6 relu6_ ReLU6": lambda x: clip(x, 0.0, 6.0),
        "hardtanh hardtanh_ Hardtanh": lambda x, min_val=-1.0, max_val=1.0: clip(
            x, min_val, max_val
        ),
        "hardsigmoid hardsigmoid_ Hardsigmoid": lambda x: x.piece.add(
            "HardSigmoid", x, alpha=1.0 / 6.0, beta=0.5
        ),
        "softplus Softplus": _softplus,
        "logsigmoid LogSigmoid": lambda x: -(-x).softplus(),
    },
    _ACTIVATIONS,
)


@row("gelu", "GELU", "fast_gelu", source=_ACTIVATIONS)
def _gelu(call: TorchCall) -> Outputs:
    kind = "tanh" if call.type == "fast_gelu" else call.word(None, "approximate", "none")
    return [call.piece.add("Gelu", call.operand(0, "input"), approximate=kind)]


@row("glu", "GLU", source=_ACTIVATIONS)
def _glu(call: TorchCall) -> Outputs:
    one, gate = _halves(call)
    return [one * gate.sigmoid()]


@row("npu_swiglu", "swiglu", source="torch_npu.npu_swiglu")
def _swiglu(call: TorchCall) -> Outputs:
    gate, value = _halves(call)
    return [gate * gate.sigmoid() * value]


@row(
    "dropout", "Dropout", "dropout_", "dropout1d", "dropout2d", source="torch.nn.functional.dropout"
)
def _dropout(call: TorchCall) -> Outputs:
    is_off = call.argument(2, "training") is False or call.argument(1, "p") == 0
    if not is_off:
        raise call.refused("draws random numbers")
    return [call.tensor()]


@row("prelu", "PReLU", source="torch.nn.functional.prelu")
def _prelu(call: TorchCall) -> Outputs:
    rank, slopes = len(call.shape()), call.parameter("weight") or call.tensor(1, "weight")
    if rank > 1:  # one for each channel
        slopes = call.piece.reshape(slopes, (1, -1, *(1,) * (rank - 2)))
    return [call.add("PRelu", call.tensor(), slopes)]


@row(*spelled("clamp", "clip", "clamp_min", "clamp_max"), source="torch.clamp")
def _clamp(call: TorchCall) -> Outputs:
    result, kind = call.operand(0, "input"), call.type.removesuffix("_")
    lowest, highest = (1, 2) if kind in ("clamp", "clip") else (1, 1)
    for node, at, word in (("Max", lowest, "min"), ("Min", highest, "max")):
        is_meant = kind in ("clamp", "clip", f"clamp_{word}")
        if is_meant and (call.find(at, word) or call.argument(at, word) is not None):
            result = call.add(node, result, call.operand(at, word))
    return [result]


# comparisons and choices

_COMPARED = {
    "eq": "Equal",
    "gt": "Greater",
    "lt": "Less",
    "ge": "GreaterOrEqual",
    "le": "LessOrEqual",
    "ne": "Equal",
}


@row(*_COMPARED, *(f"__{name}__" for name in _COMPARED), source="torch, comparison ops")
def _compared(call: TorchCall) -> Outputs:
    kind = call.type.strip("_")
    types = [
        call.dtype(at, name) for at, name in ((0, "input"), (1, "other")) if call.find(at, name)
    ]
    dtype = np.result_type(*types)
    if call.find(1, "other") is None and dtype.kind != "f":
        dtype = np.dtype(np.float64)  # an integer against a number that may be a fraction
    operands = call.operand(0, "input", dtype), call.operand(1, "other", dtype)
    result = call.add(_COMPARED[kind], *operands)
    return [~result if kind == "ne" else result]


_LOGICAL = {
    **{name: name[-3:].strip("_").title() for name in ("logical_and", "logical_or", "logical_xor")},
    **{f"__{kind.lower()}__": kind for kind in ("And", "Or", "Xor")},
}
_BOOLEAN = np.dtype(np.bool_)


@row(*_LOGICAL, source="torch.logical_and")
def _logical(call: TorchCall) -> Outputs:
    if call.type.startswith("__") and call.result.kind != "b":
        raise call.refused("works on bits")
    operands = call.operand(0, "input", _BOOLEAN), call.operand(1, "other", _BOOLEAN)
    return [call.add(_LOGICAL[call.type], *operands)]


@row("logical_not", "__invert__", source="torch.logical_not")
def _logical_not(call: TorchCall) -> Outputs:
    if call.result.kind != "b":
        raise call.refused("works on bits")
    return [~call.operand(0, "input", _BOOLEAN)]


@row("isnan", "isinf", source="torch.isnan")
def _is_nonfinite(call: TorchCall) -> Outputs:
    return [call.add("IsNaN" if call.type == "isnan" else "IsInf", call.tensor())]


@row(*spelled("nan_to_num"), source="torch.nan_to_num")
def _finite(call: TorchCall) -> Outputs:
    value, ends = call.tensor(), np.finfo(call.working)
    replaced = (
        ("nan", 0.0, call.add("IsNaN", value)),
        ("posinf", float(ends.max), call.add("IsInf", value, detect_negative=0)),
        ("neginf", float(ends.min), call.add("IsInf", value, detect_positive=0)),
    )
    result = value
    for at, (word, usual, meant) in enumerate(replaced, start=1):
        result = where(meant, call.number(at, word, usual), result)
    return [result]


@row("where", source="torch.where")
def _where(call: TorchCall) -> Outputs:
    if call.argument(1, "input") is None and call.find(1, "input") is None:
        return places_where(call)
    choices = call.operand(1, "input", call.result), call.operand(2, "other", call.result)
    return [where(call.operand(0, "condition", _BOOLEAN), *choices)]


@row(*spelled("masked_fill"), source="torch.Tensor.masked_fill_")
def _masked_fill(call: TorchCall) -> Outputs:
    choices = call.operand(2, "value", call.result), call.operand(0, "input", call.result)
    return [where(call.operand(1, "mask", _BOOLEAN), *choices)]
