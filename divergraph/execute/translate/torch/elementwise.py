"""Calls that compute each element by itself, or elements of several tensors at one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from divergraph.execute.translate.torch.call import TorchCall, row, spelled
from divergraph.execute.translate.torch.indexing import places_where

_MATH = "torch, pointwise ops"

SAME = {
    "abs": "Abs",
    "exp": "Exp",
    "neg": "Neg",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "reciprocal": "Reciprocal",
    "log": "Log",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "sign": "Sign",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "relu": "Relu",
    "softsign": "Softsign",
    "mish": "Mish",
    "hardswish": "HardSwish",
}
"""Functions that one ONNX op of one input computes."""
_MODULES = {
    "Tanh": "Tanh",
    "Sigmoid": "Sigmoid",
    "ReLU": "Relu",
    "Softsign": "Softsign",
    "Mish": "Mish",
    "Hardswish": "HardSwish",
}


def _same(onnx_kind: str) -> Callable[[TorchCall], Sequence[str]]:
    return lambda call: [call.add(onnx_kind, call.operand(0, "input"))]


for _name, _kind in SAME.items():
    row(*spelled(_name), source=_MATH)(_same(_kind))
for _name, _kind in _MODULES.items():
    row(_name, source="torch.nn")(_same(_kind))
row("__neg__", source=_MATH)(_same("Neg"))
row("__abs__", "absolute", source=_MATH)(_same("Abs"))


@row(*spelled("rsqrt"), source=_MATH)
def _rsqrt(call: TorchCall) -> Sequence[str]:
    return [call.add("Reciprocal", call.add("Sqrt", call.operand(0, "input")))]


@row(*spelled("square"), source=_MATH)
def _square(call: TorchCall) -> Sequence[str]:
    value = call.operand(0, "input")
    return [call.add("Mul", value, value)]


@row(*spelled("log2", "log10", "log1p", "exp2", "expm1"), source=_MATH)
def _powers(call: TorchCall) -> Sequence[str]:
    value, kind = call.operand(0, "input"), call.type.removesuffix("_")
    if kind == "exp2":
        return [call.add("Exp", call.add("Mul", value, call.constant(math.log(2.0))))]
    if kind in ("log1p", "expm1"):  # of small values in double: 1 + x alone would round x away
        wide, one = call.piece.cast(value, np.float64), np.array(1.0)
        if kind == "expm1":
            return [call.cast(call.add("Sub", call.add("Exp", wide), one))]
        return [call.cast(call.add("Log", call.add("Add", wide, one)))]
    base = math.log(2.0 if kind == "log2" else 10.0)
    return [call.add("Div", call.add("Log", value), call.constant(base))]


def scaled(call: TorchCall, name: str, by: float) -> str:
    """*name* times a number."""
    return name if by == 1 else call.add("Mul", name, call.constant(by))


@row(*spelled("add"), "__add__", "__iadd__", "__radd__", "AddBackward", source="torch.add")
def _add(call: TorchCall) -> Sequence[str]:
    other = scaled(call, call.operand(1, "other"), call.number(None, "alpha", 1))
    return [call.add("Add", call.operand(0, "input"), other)]


@row(*spelled("sub", "subtract"), "__sub__", "__isub__", source="torch.sub")
def _sub(call: TorchCall) -> Sequence[str]:
    other = scaled(call, call.operand(1, "other"), call.number(None, "alpha", 1))
    return [call.add("Sub", call.operand(0, "input"), other)]


@row("__rsub__", "rsub", source="torch.sub")
def _rsub(call: TorchCall) -> Sequence[str]:
    own = scaled(call, call.operand(0, "input"), call.number(None, "alpha", 1))
    return [call.add("Sub", call.operand(1, "other"), own)]


@row(*spelled("mul", "multiply"), "__mul__", "__imul__", "__rmul__", source="torch.mul")
def _mul(call: TorchCall) -> Sequence[str]:
    return [call.add("Mul", call.operand(0, "input"), call.operand(1, "other"))]


@row(*spelled("div", "divide", "true_divide"), "__truediv__", "__itruediv__", "__div__", "__idiv__",
     source="torch.div")  # fmt: skip
def _div(call: TorchCall) -> Sequence[str]:
    result = call.add("Div", call.operand(0, "input"), call.operand(1, "other"))
    mode = call.word(None, "rounding_mode", "")
    if not mode:
        return [result]
    if mode == "floor":
        return [call.add("Floor", result)]
    sign, size = call.add("Sign", result), call.add("Abs", result)
    return [call.add("Mul", sign, call.add("Floor", size))]


@row("__rtruediv__", "__rdiv__", source="torch.div")
def _rdiv(call: TorchCall) -> Sequence[str]:
    return [call.add("Div", call.operand(1, "other"), call.operand(0, "input"))]


@row(*spelled("floor_divide"), "__floordiv__", "__ifloordiv__", source="torch.floor_divide")
def _floor_divide(call: TorchCall) -> Sequence[str]:
    one, other = (
        call.piece.cast(call.operand(at, name), np.float64)
        for at, name in enumerate(("input", "other"))
    )
    return [call.cast(call.add("Floor", call.add("Div", one, other)))]


@row(*spelled("remainder"), "__mod__", source="torch.remainder")
def _remainder(call: TorchCall) -> Sequence[str]:
    one, other = call.operand(0, "input"), call.operand(1, "other")
    wide = [call.piece.cast(each, np.float64) for each in (one, other)]
    whole = call.piece.cast(call.add("Floor", call.add("Div", *wide)), call.working)
    return [call.add("Sub", one, call.add("Mul", whole, other))]


@row(*spelled("pow"), "__pow__", "__ipow__", "float_power", source="torch.pow")
def _pow(call: TorchCall) -> Sequence[str]:
    return [call.add("Pow", call.operand(0, "input"), call.operand(1, "exponent"))]


@row("__rpow__", source="torch.pow")
def _rpow(call: TorchCall) -> Sequence[str]:
    return [call.add("Pow", call.operand(1, "other"), call.operand(0, "input"))]


@row(*spelled("atan2"), source="torch.atan2")
def _atan2(call: TorchCall) -> Sequence[str]:
    y, x = call.operand(0, "input"), call.operand(1, "other")
    zero, pi = call.constant(0.0), call.constant(math.pi)
    angle = call.add("Atan", call.add("Div", y, x))
    turn = call.add("Where", call.add("Less", y, zero), call.add("Neg", pi), pi)
    return [call.add("Add", angle, call.add("Where", call.add("Less", x, zero), turn, zero))]


@row("hypot", source="torch.hypot")
def _hypot(call: TorchCall) -> Sequence[str]:
    squares = (
        call.add("Mul", name, name) for name in (call.operand(0, "input"), call.operand(1, "other"))
    )
    return [call.add("Sqrt", call.add("Add", *squares))]


@row("logaddexp", source="torch.logaddexp")
def _logaddexp(call: TorchCall) -> Sequence[str]:
    one, other = call.operand(0, "input"), call.operand(1, "other")
    apart = call.add("Neg", call.add("Abs", call.add("Sub", one, other)))
    return [call.add("Add", call.add("Max", one, other), call.add("Softplus", apart))]


@row("xlogy", source="torch.xlogy")
def _xlogy(call: TorchCall) -> Sequence[str]:
    value, zero = call.operand(0, "input"), call.constant(0.0)
    product = call.add("Mul", value, call.add("Log", call.operand(1, "other")))
    return [call.add("Where", call.add("Equal", value, zero), zero, product)]


@row("maximum", "minimum", source="torch.maximum")
def _extreme_of_two(call: TorchCall) -> Sequence[str]:
    kind = "Max" if call.type == "maximum" else "Min"
    return [call.add(kind, call.operand(0, "input"), call.operand(1, "other"))]


@row(*spelled("clamp", "clip", "clamp_min", "clamp_max"), source="torch.clamp")
def _clamp(call: TorchCall) -> Sequence[str]:
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
}


@row(*(each for name in _COMPARED for each in (name, f"__{name}__")), "ne", "__ne__",
     source="torch, comparison ops")  # fmt: skip
def _compared(call: TorchCall) -> Sequence[str]:
    kind = call.type.strip("_")
    types = [
        call.dtype(at, name) for at, name in ((0, "input"), (1, "other")) if call.find(at, name)
    ]
    dtype = np.result_type(*types)
    if call.find(1, "other") is None and dtype.kind != "f":
        dtype = np.dtype(np.float64)  # an integer against a number that may be a fraction
    one, other = call.operand(0, "input", dtype), call.operand(1, "other", dtype)
    if kind == "ne":
        return [call.add("Not", call.add("Equal", one, other))]
    return [call.add(_COMPARED[kind], one, other)]


_LOGICAL = {
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "__and__": "And",
    "__or__": "Or",
    "__xor__": "Xor",
}


@row(*_LOGICAL, source="torch.logical_and")
def _logical(call: TorchCall) -> Sequence[str]:
    if call.type.startswith("__") and call.result.kind != "b":
        raise call.refused("works on bits")
    boolean = np.dtype(np.bool_)
    return [
        call.add(
            _LOGICAL[call.type],
            call.operand(0, "input", boolean),
            call.operand(1, "other", boolean),
        )
    ]


@row("logical_not", "__invert__", source="torch.logical_not")
def _logical_not(call: TorchCall) -> Sequence[str]:
    if call.result.kind != "b":
        raise call.refused("works on bits")
    return [call.add("Not", call.operand(0, "input", np.dtype(np.bool_)))]


@row("isnan", "isinf", source="torch.isnan")
def _is_nonfinite(call: TorchCall) -> Sequence[str]:
    return [call.add("IsNaN" if call.type == "isnan" else "IsInf", call.tensor())]


@row(*spelled("nan_to_num"), source="torch.nan_to_num")
def _finite(call: TorchCall) -> Sequence[str]:
    value, ends = call.tensor(), np.finfo(call.working)
    replaced = (
        ("nan", 0.0, call.add("IsNaN", value)),
        ("posinf", float(ends.max), call.add("IsInf", value, detect_negative=0)),
        ("neginf", float(ends.min), call.add("IsInf", value, detect_positive=0)),
    )
    result = value
    for at, (word, usual, meant) in enumerate(replaced, start=1):
        result = call.add("Where", meant, call.constant(call.number(at, word, usual)), result)
    return [result]


@row("where", source="torch.where")
def _where(call: TorchCall) -> Sequence[str]:
    if call.argument(1, "input") is None and call.find(1, "input") is None:
        return places_where(call)
    asked = call.operand(0, "condition", np.dtype(np.bool_))
    dtype = call.result
    return [
        call.add("Where", asked, call.operand(1, "input", dtype), call.operand(2, "other", dtype))
    ]


@row(*spelled("masked_fill"), source="torch.Tensor.masked_fill_")
def _masked_fill(call: TorchCall) -> Sequence[str]:
    mask = call.operand(1, "mask", np.dtype(np.bool_))
    dtype = call.result
    return [
        call.add("Where", mask, call.operand(2, "value", dtype), call.operand(0, "input", dtype))
    ]


# steps of optimizers: the dump has the value before the call


@row(*spelled("lerp"), source="torch.lerp")
def _lerp(call: TorchCall) -> Sequence[str]:
    begin, end = call.operand(0, "input"), call.operand(1, "end")
    step = call.add("Mul", call.operand(2, "weight"), call.add("Sub", end, begin))
    return [call.add("Add", begin, step)]


@row(*spelled("addcmul", "addcdiv"), source="torch.addcmul")
def _addc(call: TorchCall) -> Sequence[str]:
    kind = "Mul" if "mul" in call.type else "Div"
    term = call.add(kind, call.operand(1, "tensor1"), call.operand(2, "tensor2"))
    term = scaled(call, term, call.number(None, "value", 1.0))
    return [call.add("Add", call.operand(0, "input"), term)]
