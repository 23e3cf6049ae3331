"""The slopes of ONNX nodes of one input, element by element: of that (x) and of the output (y)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from divergraph.execute.translate.formulas import square, where
from divergraph.execute.translate.piece import Expr

if TYPE_CHECKING:
    from onnx import NodeProto

Slope: TypeAlias = "Callable[[Expr, Expr, Callable[..., Any]], Expr]"
"""The derivative of a node, given its attributes by name and default."""


def attribute(node: NodeProto, name: str, default: Any) -> Any:
    """An attribute of *node*, or the *default*."""
    from onnx import helper

    result = [helper.get_attribute_value(each) for each in node.attribute if each.name == name]
    return result[0] if result else default


def typed(truth: Expr, like: Expr) -> Expr:
    """1 where it is true, 0 elsewhere, in the type of *like*."""
    return truth.cast(like.dtype)


def _between(x: Expr, low: float, high: float) -> Expr:
    return typed(x > low, x) * typed(x < high, x)


def _bent(x: Expr, below: Expr) -> Expr:
    """1 above 0, *below* elsewhere."""
    return where(x > 0.0, 1.0, below)


def _constant(value: float, like: Expr) -> Expr:
    return like.piece.const(like.dtype.type(value))


def _hard_swish(x: Expr) -> Expr:
    return (x * (1 / 3) + 0.5) * _between(x, -3.0, 3.0) + typed(x >= 3.0, x)


def _mish(x: Expr) -> Expr:
    bent = x.softplus().tanh()
    return bent + x * x.sigmoid() * (1.0 - bent * bent)


def _gelu(x: Expr, approximate: bytes) -> Expr:
    if approximate == b"tanh":
        factor, cubic = math.sqrt(2.0 / math.pi), 0.044715
        bent = (factor * (x * (1.0 + cubic * (x * x)))).tanh()
        slope = (1.0 - bent * bent) * (factor * (1.0 + 3 * cubic * (x * x)))
        return 0.5 * (1.0 + bent + x * slope)
    share = 0.5 * (1.0 + (x * math.sqrt(0.5)).erf())
    return share + x * ((-0.5 * (x * x)).exp() * (1.0 / math.sqrt(2 * math.pi)))


SLOPES: Mapping[str, Slope] = {
    "Neg": lambda x, _y, _attr: _constant(-1.0, x),
    "Exp": lambda _x, y, _attr: y,
    "Log": lambda x, _y, _attr: x.reciprocal(),
    "Sqrt": lambda _x, y, _attr: 0.5 / y,
    "Reciprocal": lambda _x, y, _attr: -(y * y),
    "Sin": lambda x, _y, _attr: x.cos(),
    "Cos": lambda x, _y, _attr: -x.sin(),
    "Tan": lambda _x, y, _attr: 1.0 + y * y,
    "Sinh": lambda x, _y, _attr: x.cosh(),
    "Cosh": lambda x, _y, _attr: x.sinh(),
    "Asin": lambda x, _y, _attr: (1.0 - x * x).sqrt().reciprocal(),
    "Acos": lambda x, _y, _attr: -(1.0 - x * x).sqrt().reciprocal(),
    "Atan": lambda x, _y, _attr: (1.0 + x * x).reciprocal(),
    "Asinh": lambda x, _y, _attr: (1.0 + x * x).sqrt().reciprocal(),
    "Acosh": lambda x, _y, _attr: (x * x - 1.0).sqrt().reciprocal(),
    "Atanh": lambda x, _y, _attr: (1.0 - x * x).reciprocal(),
    "Tanh": lambda _x, y, _attr: 1.0 - y * y,
    "Sigmoid": lambda _x, y, _attr: y * (1.0 - y),
    "Erf": lambda x, _y, _attr: (-(x * x)).exp() * (2.0 / math.sqrt(math.pi)),
    "Abs": lambda x, _y, _attr: x.sign(),
    "Relu": lambda x, _y, _attr: typed(x > 0.0, x),
    "Softplus": lambda x, _y, _attr: x.sigmoid(),
    "Softsign": lambda x, _y, _attr: square(1.0 + abs(x)).reciprocal(),
    "Mish": lambda x, _y, _attr: _mish(x),
    "Gelu": lambda x, _y, attr: _gelu(x, attr("approximate", b"none")),
    "HardSwish": lambda x, _y, _attr: _hard_swish(x),
    "HardSigmoid": lambda _x, y, attr: attr("alpha", 0.2) * _between(y, 0.0, 1.0),
    "Elu": lambda x, _y, attr: _bent(x, attr("alpha", 1.0) * x.exp()),
    "LeakyRelu": lambda x, _y, attr: _bent(x, _constant(attr("alpha", 0.01), x)),
}
