"""Ops of its inputs, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import (
    CASES,
    Build,
    Draw,
    case,
    numbers,
    partner,
    seed_of,
    shape_of,
)

_FLOAT_UNARY = (
    *("Neg", "Abs", "Sign", "Exp", "Erf", "Sin", "Cos", "Tanh", "Sigmoid", "Floor", "Ceil"),
    *("Round", "Rint", "Square", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "Expm1"),
    *("Atan", "Sinh", "Cosh", "Asinh", "Identity", "ZerosLike", "OnesLike", "IsNan", "IsInf"),
    *("IsFinite", "LeakyRelu", "Erfc", "L2Loss", "Shape", "Size", "Rank", "Snapshot"),
    *("StopGradient", "PreventGradient", "Tan"),
)
_INPUT = {
    **dict.fromkeys(("L2Loss",), "t"),
    **dict.fromkeys(("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign"), "features"),
    "LeakyRelu": "features",
    **dict.fromkeys(("Identity", "Shape", "Size", "Rank", "Snapshot", "StopGradient"), "input"),
    "PreventGradient": "input",
}
_POSITIVE_UNARY = ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Acosh")
_BINARY = (
    *("Add", "AddV2", "Sub", "Mul", "RealDiv", "Div", "Maximum", "Minimum", "SquaredDifference"),
    *("FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal"),
    *("NotEqual", "DivNoNan", "MulNoNan", "Xdivy", "TruncateMod", "Mod"),
)
_INTEGER_BINARY = ("Add", "Sub", "Mul", "FloorDiv", "FloorMod", "TruncateDiv", "Maximum", "Less")
_GRADIENTS = {
    **dict.fromkeys(
        ("ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"),
        ("gradients", "features"),
    ),
    **dict.fromkeys(("EluGrad", "SeluGrad"), ("gradients", "outputs")),
    **dict.fromkeys(
        ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"),
        ("y", "dy"),
    ),
}


def _unary(kind: str, *, positive: bool = False) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        x = feed(numbers(shape_of(draw), seed_of(draw), positive=positive))
        return getattr(ops, kind)(**{_INPUT.get(kind, "x"): x})

    return build


def _binary(kind: str, element: str) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        left = numbers(shape, seed_of(draw), element)
        right = numbers(partner(draw, shape), seed_of(draw), element, positive=element != "f4")
        if kind in ("FloorMod", "Mod", "TruncateMod", "RealDiv", "Div", "FloorDiv"):
            right = np.where(right == 0, np.ones_like(right), right)
        if kind == "SquaredDifference" and draw(st.booleans()):
            left, right = right, left
        x, y = feed(left), feed(right)
        return getattr(ops, kind)(x=x, y=y)

    return build


def _gradient(kind: str, names: tuple[str, str]) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        positive = kind in ("SqrtGrad", "RsqrtGrad")
        given_ = {
            name: feed(numbers(shape, seed_of(draw), positive=positive and name == "y"))
            for name in names
        }
        return getattr(ops, kind)(**given_)

    return build


for _kind in _FLOAT_UNARY:
    CASES[_kind] = _unary(_kind)
for _kind in _POSITIVE_UNARY:
    CASES[_kind] = _unary(_kind, positive=True)
for _kind in _BINARY:
    CASES[_kind] = _binary(_kind, "f4")
for _kind in _INTEGER_BINARY:
    CASES[f"{_kind} of integers"] = _binary(_kind, "i4")
for _kind, _names in _GRADIENTS.items():
    CASES[_kind] = _gradient(_kind, _names)


@case("Cast")
def _cast(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw), seed_of(draw), draw(st.sampled_from(["f4", "i4", "b1"]))))
    return ops.Cast(x=x, DstT=draw(st.sampled_from(["float32", "int32", "int64", "bool"])))


@case("AddN")
def _add_n(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    count = draw(st.integers(1, 4))
    return ops.AddN(inputs=[feed(numbers(shape, seed_of(draw))) for _ in range(count)])


@case("Pow")
def _pow(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    x, y = numbers(shape, seed_of(draw), positive=True), numbers(partner(draw, shape), 1)
    return ops.Pow(x=feed(x), y=feed(y))


@case("ClipByValue")
def _clip(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw), seed_of(draw)))
    return ops.ClipByValue(t=x, clip_value_min=np.float32(-0.5), clip_value_max=np.float32(0.75))


@case("Select", "SelectV2")
def _select(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    by_row = draw(st.booleans())
    condition = feed(numbers(shape[:1] if by_row else shape, seed_of(draw), "b1"))
    x, y = feed(numbers(shape, 1)), feed(numbers(shape, 2))
    if by_row or draw(st.booleans()):
        return ops.Select(condition=condition, x=x, y=y)
    return ops.SelectV2(condition=condition, t=x, e=y)


@case("LogicalAnd", "LogicalOr")
def _logical(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    x, y = feed(numbers(shape, seed_of(draw), "b1")), feed(numbers(shape, seed_of(draw), "b1"))
    return [ops.LogicalAnd(x=x, y=y), ops.LogicalOr(x=x, y=y), ops.LogicalNot(x=x)]


@case("Atan2", "Xlog1py", "ApproximateEqual")
def _of_two(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw)
    x, y = numbers(shape, seed_of(draw)), numbers(shape, seed_of(draw))
    return [
        ops.Atan2(y=feed(y), x=feed(np.where((x == 0) & draw(st.booleans()), -x, x))),
        ops.Xlog1py(x=feed(x), y=feed(np.abs(y))),
        ops.ApproximateEqual(x=feed(x), y=feed(y), tolerance=0.5),
    ]
