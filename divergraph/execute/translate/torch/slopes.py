"""The slopes of ONNX nodes of one input, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from onnx import NodeProto

    from divergraph.execute.translate.torch.reverse import Reverse

Slope: TypeAlias = "Callable[[Reverse, NodeProto, str, str], str]"
"""The derivative of a node of one input, of that and of the output."""


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of *node*, or the *default*."""
    from onnx import helper

    result = [helper.get_attribute_value(each) for each in node.attribute if each.name == name]
    return result[0] if result else default


def _less_square(back: Reverse, _node: NodeProto, x: str, y: str) -> str:
    return back.add("Sub", back.number(1.0, x), back.add("Mul", y, y))


def _sigmoid(back: Reverse, _node: NodeProto, x: str, y: str) -> str:
    return back.add("Mul", y, back.add("Sub", back.number(1.0, x), y))


def _more_square(back: Reverse, x: str, y: str) -> str:
    return back.add("Add", back.number(1.0, x), back.add("Mul", y, y))


def _asin(back: Reverse, node: NodeProto, x: str, _y: str) -> str:
    return _root_under(back, _less_square(back, node, x, x))


def _root_under(back: Reverse, square: str) -> str:
    """1 over the root of *square*."""
    return back.add("Reciprocal", back.add("Sqrt", square))


def _above(back: Reverse, x: str, limit: float, kind: str = "Greater") -> str:
    return back.typed(back.add(kind, x, back.number(limit, x)), x)


def _between(back: Reverse, x: str, low: float, high: float) -> str:
    return back.add("Mul", _above(back, x, low), _above(back, x, high, "Less"))


def _bent(back: Reverse, x: str, below: str) -> str:
    """1 above 0, *below* elsewhere."""
    above = back.add("Greater", x, back.number(0.0, x))
    return back.add("Where", above, back.number(1.0, x), below)


def _elu(back: Reverse, node: NodeProto, x: str, _y: str) -> str:
    alpha = back.number(attribute(node, "alpha", 1.0), x)
    return _bent(back, x, back.add("Mul", alpha, back.add("Exp", x)))


def _leaky(back: Reverse, node: NodeProto, x: str, _y: str) -> str:
    return _bent(back, x, back.number(attribute(node, "alpha", 0.01), x))


def _hard_sigmoid(back: Reverse, node: NodeProto, x: str, y: str) -> str:
    alpha = back.number(attribute(node, "alpha", 0.2), x)
    return back.add("Mul", alpha, _between(back, y, 0.0, 1.0))


def _hard_swish(back: Reverse, _node: NodeProto, x: str, _y: str) -> str:
    rise = back.add("Mul", x, back.number(1 / 3, x))
    rise = back.add("Add", rise, back.number(0.5, x))
    inside = back.add("Mul", rise, _between(back, x, -3.0, 3.0))
    return back.add("Add", inside, _above(back, x, 3.0, "GreaterOrEqual"))


def _mish(back: Reverse, _node: NodeProto, x: str, _y: str) -> str:
    bent = back.add("Tanh", back.add("Softplus", x))
    rest = back.add("Mul", back.add("Mul", x, back.add("Sigmoid", x)), _less_square(
        back, _node, x, bent))  # fmt: skip
    return back.add("Add", bent, rest)


def _gelu(back: Reverse, node: NodeProto, x: str, _y: str) -> str:
    half, one = back.number(0.5, x), back.number(1.0, x)
    square = back.add("Mul", x, x)
    if attribute(node, "approximate", b"none") == b"tanh":
        factor, cubic = math.sqrt(2.0 / math.pi), 0.044715
        inner = back.add("Add", one, back.add("Mul", back.number(cubic, x), square))
        inner = back.add("Mul", back.number(factor, x), back.add("Mul", x, inner))
        bent = back.add("Tanh", inner)
        rise = back.add("Add", one, back.add("Mul", back.number(3 * cubic, x), square))
        rise = back.add("Mul", back.number(factor, x), rise)
        slope = back.add("Mul", _less_square(back, node, x, bent), rise)
        both = back.add("Add", back.add("Add", one, bent), back.add("Mul", x, slope))
        return back.add("Mul", half, both)
    share = back.add("Erf", back.add("Mul", x, back.number(math.sqrt(0.5), x)))
    share = back.add("Mul", half, back.add("Add", one, share))
    density = back.add("Exp", back.add("Mul", back.number(-0.5, x), square))
    density = back.add("Mul", density, back.number(1.0 / math.sqrt(2 * math.pi), x))
    return back.add("Add", share, back.add("Mul", x, density))


def _erf(back: Reverse, _node: NodeProto, x: str, _y: str) -> str:
    density = back.add("Exp", back.add("Neg", back.add("Mul", x, x)))
    return back.add("Mul", density, back.number(2.0 / math.sqrt(math.pi), x))


def _softsign(back: Reverse, _node: NodeProto, x: str, _y: str) -> str:
    size = back.add("Add", back.number(1.0, x), back.add("Abs", x))
    return back.add("Reciprocal", back.add("Mul", size, size))


SLOPES: Mapping[str, Slope] = {
    "Neg": lambda back, _node, x, _y: back.number(-1.0, x),
    "Exp": lambda _back, _node, _x, y: y,
    "Log": lambda back, _node, x, _y: back.add("Reciprocal", x),
    "Sqrt": lambda back, _node, x, y: back.add("Div", back.number(0.5, x), y),
    "Reciprocal": lambda back, _node, _x, y: back.add("Neg", back.add("Mul", y, y)),
    "Sin": lambda back, _node, x, _y: back.add("Cos", x),
    "Cos": lambda back, _node, x, _y: back.add("Neg", back.add("Sin", x)),
    "Tan": lambda back, _node, x, y: _more_square(back, x, y),
    "Sinh": lambda back, _node, x, _y: back.add("Cosh", x),
    "Cosh": lambda back, _node, x, _y: back.add("Sinh", x),
    "Asin": _asin,
    "Acos": lambda back, node, x, y: back.add("Neg", _asin(back, node, x, y)),
    "Atan": lambda back, _node, x, _y: back.add("Reciprocal", _more_square(back, x, x)),
    "Asinh": lambda back, _node, x, _y: _root_under(back, _more_square(back, x, x)),
    "Acosh": lambda back, _node, x, _y: _root_under(
        back, back.add("Sub", back.add("Mul", x, x), back.number(1.0, x))
    ),
    "Atanh": lambda back, node, x, _y: back.add("Reciprocal", _less_square(back, node, x, x)),
    "Tanh": _less_square,
    "Sigmoid": _sigmoid,
    "Erf": _erf,
    "Abs": lambda back, _node, x, _y: back.add("Sign", x),
    "Relu": lambda back, _node, x, _y: _above(back, x, 0.0),
    "Softplus": lambda back, _node, x, _y: back.add("Sigmoid", x),
    "Softsign": _softsign,
    "Mish": _mish,
    "Gelu": _gelu,
    "HardSwish": _hard_swish,
    "HardSigmoid": _hard_sigmoid,
    "Elu": _elu,
    "LeakyRelu": _leaky,
}
