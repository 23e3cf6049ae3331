"""Ops that work element by element, and casts."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from divergraph.execute.translate.piece import Operand, Piece
from divergraph.execute.translate.tensorflow.element_types import numpy_type
from divergraph.execute.translate.tensorflow.rows.lists import added_lists, empty_like
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, MATH, NN, ROWS

ROWS.same(
    {
        "Add": "Add",
        "AddV2": "Add",
        "Sub": "Sub",
        "Mul": "Mul",
        "RealDiv": "Div",
        "Div": "Div",
        "TruncateDiv": "Div",
        "Maximum": "Max",
        "Minimum": "Min",
        "Neg": "Neg",
        "Abs": "Abs",
        "Sign": "Sign",
        "Exp": "Exp",
        "Log": "Log",
        "Sqrt": "Sqrt",
        "Reciprocal": "Reciprocal",
        "Inv": "Reciprocal",
        "Erf": "Erf",
        "Sin": "Sin",
        "Cos": "Cos",
        "Tan": "Tan",
        "Sinh": "Sinh",
        "Cosh": "Cosh",
        "Asin": "Asin",
        "Acos": "Acos",
        "Atan": "Atan",
        "Asinh": "Asinh",
        "Acosh": "Acosh",
        "Atanh": "Atanh",
        "Tanh": "Tanh",
        "Sigmoid": "Sigmoid",
        "Floor": "Floor",
        "Ceil": "Ceil",
        "Round": "Round",
        "Rint": "Round",
        "Greater": "Greater",
        "GreaterEqual": "GreaterOrEqual",
        "Less": "Less",
        "LessEqual": "LessOrEqual",
        "Equal": "Equal",
        "LogicalAnd": "And",
        "LogicalOr": "Or",
        "LogicalNot": "Not",
        "IsNan": "IsNaN",
        "IsInf": "IsInf",
        "BitwiseAnd": "BitwiseAnd",
        "BitwiseOr": "BitwiseOr",
        "BitwiseXor": "BitwiseXor",
        "Invert": "BitwiseNot",
        "SelectV2": "Where",
    },
    MATH,
)
ROWS.same({"Relu": "Relu", "Softsign": "Softsign", "Selu": "Selu", "Elu": "Elu"}, NN)


@ROWS.row(
    *("Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape"),
    *("CheckNumericsV2", "GuaranteeConst", "DeepCopy"),
    *(
        "PlaceholderWithDefault",
        "RefIdentity",
        "ReadVariableOp",
        "DebugGradientIdentity",
        "DebugIdentity",
    ),
    source=ARRAY,
)
def identity(p: Piece) -> Sequence[str]:
    """Hands its input on."""
    return [p.name()]


@ROWS.row("IdentityN", source=ARRAY)
def identities(p: Piece) -> Sequence[str]:
    """Hands its inputs on."""
    return [p.name(at) for at in range(len(p))]


@ROWS.row("Cast", source=MATH)
def cast(p: Piece) -> Sequence[str]:
    """Another element type; floats become integers towards zero."""
    return [p.cast(p.name(), numpy_type(p.attr("DstT")))]


@ROWS.row("AddN", "AccumulateNV2", source=MATH)
def add_n(p: Piece) -> Sequence[str]:
    """The sum of all inputs."""
    if p.op.attrs.get("T") == "variant":
        return [added_lists(p)]
    return [p.name() if len(p) == 1 else p.add("Sum", *p.names)]


@ROWS.row("Square", source=MATH)
def square(p: Piece) -> Sequence[str]:
    """x * x."""
    return [p.add("Mul", p.name(), p.name())]


@ROWS.row("SquaredDifference", source=MATH)
def squared_difference(p: Piece) -> Sequence[str]:
    """(x - y) * (x - y)."""
    difference = p.add("Sub", p.name(0), p.name(1))
    return [p.add("Mul", difference, difference)]


@ROWS.row("Rsqrt", source=MATH)
def rsqrt(p: Piece) -> Sequence[str]:
    """1 / sqrt(x)."""
    return [p.add("Reciprocal", p.add("Sqrt", p.name()))]


@ROWS.row("Pow", source=MATH)
def power(p: Piece) -> Sequence[str]:
    """x to the power of y."""
    return [p.add("Pow", p.name(0), p.name(1))]


@ROWS.row("NotEqual", source=MATH)
def not_equal(p: Piece) -> Sequence[str]:
    """Whether elements differ; NaN differs from itself."""
    return [p.add("Not", p.add("Equal", p.name(0), p.name(1)))]


@ROWS.row("IsFinite", source=MATH)
def is_finite(p: Piece) -> Sequence[str]:
    """Whether elements are neither NaN nor infinite."""
    return [p.add("Not", p.add("Or", p.add("IsNaN", p.name()), p.add("IsInf", p.name())))]


@ROWS.row("DivNoNan", source=MATH)
def div_no_nan(p: Piece) -> Sequence[str]:
    """x / y; 0 where y is 0."""
    return [p.add("Where", _is_zero(p, 1), p.number(0), p.add("Div", p.name(0), p.name(1)))]


@ROWS.row("MulNoNan", source=MATH)
def mul_no_nan(p: Piece) -> Sequence[str]:
    """x * y; 0 where y is 0."""
    return [p.add("Where", _is_zero(p, 1), p.number(0), p.add("Mul", p.name(0), p.name(1)))]


@ROWS.row("Xdivy", source=MATH)
def xdivy(p: Piece) -> Sequence[str]:
    """x / y; 0 where x is 0."""
    return [p.add("Where", _is_zero(p, 0), p.number(0), p.add("Div", p.name(0), p.name(1)))]


@ROWS.row("Xlogy", source=MATH)
def xlogy(p: Piece) -> Sequence[str]:
    """x log(y); 0 where x is 0."""
    product = p.add("Mul", p.name(0), p.add("Log", p.name(1)))
    return [p.add("Where", _is_zero(p, 0), p.number(0), product)]


def _is_zero(p: Piece, at: int) -> str:
    return p.add("Equal", p.name(at), p.number(0, at))


@ROWS.row("FloorDiv", source=MATH)
def floor_div(p: Piece) -> Sequence[str]:
    """x / y rounded down."""
    x, y = p.name(0), p.name(1)
    if p.dtype().kind == "f":
        return [p.add("Floor", p.add("Div", x, y))]
    return [p.add("Div", p.add("Sub", x, p.add("Mod", x, y)), y)]


@ROWS.row("FloorMod", source=MATH)
def floor_mod(p: Piece) -> Sequence[str]:
    """What is left of x after it was divided by y and rounded down: it has the sign of y."""
    x, y = p.name(0), p.name(1)
    if p.dtype().kind != "f":
        return [p.add("Mod", x, y)]
    rest = p.add("Mod", x, y, fmod=1)
    zero = p.number(0)
    signs_differ = p.add("Xor", p.add("Less", rest, zero), p.add("Less", y, zero))
    wrong = p.add("And", signs_differ, p.add("Not", p.add("Equal", rest, zero)))
    return [p.add("Where", wrong, p.add("Add", rest, y), rest)]


@ROWS.row("Mod", "TruncateMod", source=MATH)
def truncate_mod(p: Piece) -> Sequence[str]:
    """What is left of x after it was divided by y and rounded to zero: it has the sign of x."""
    return [p.add("Mod", p.name(0), p.name(1), fmod=1)]


@ROWS.row("Expm1", source=MATH)
def expm1(p: Piece) -> Sequence[str]:
    """exp(x) - 1, also near 0.

    With u = exp(x) rounded, (u - 1) x / log(u) is exact to rounding: the errors of u - 1 and of
    log(u) cancel (W. Kahan).
    """
    x, one = p.name(), p.number(1)
    u = p.add("Exp", x)
    less = p.add("Sub", u, one)
    close = p.add("Div", p.add("Mul", less, x), p.add("Log", u))
    # Far from 0 nothing cancels, and log(u) has no value where u is 0 or infinite.
    far = p.add("Greater", p.add("Abs", x), p.number(1))
    result = p.add("Where", far, less, close)
    return [p.add("Where", p.add("Equal", u, one), x, result)]


@ROWS.row("Log1p", source=MATH)
def log1p(p: Piece) -> Sequence[str]:
    """log(1 + x), also near 0."""
    return [_log1p(p, p.name())]


def _log1p(p: Piece, x: str) -> str:
    """With u = 1 + x rounded it is log(u) x / (u - 1) (W. Kahan)."""
    one = p.number(1)
    u = p.add("Add", x, one)
    logarithm = p.add("Log", u)
    close = p.add("Div", p.add("Mul", logarithm, x), p.add("Sub", u, one))
    far = p.add("Greater", p.add("Abs", x), one)
    result = p.add("Where", far, logarithm, close)
    return p.add("Where", p.add("Equal", u, one), x, result)


@ROWS.row("Xlog1py", source=MATH)
def xlog1py(p: Piece) -> Sequence[str]:
    """x log(1 + y); 0 where x is 0."""
    product = p.add("Mul", p.name(0), _log1p(p, p.name(1)))
    return [p.add("Where", _is_zero(p, 0), p.number(0), product)]


@ROWS.row("Atan2", source=MATH)
def atan2(p: Piece) -> Sequence[str]:
    """The angle of the point (x, y), in its quadrant; signs of zeros count."""
    y, x, zero = p.name(0), p.name(1), p.number(0)
    half, pi = p.number(np.pi / 2), p.number(np.pi)
    below = p.add("Less", p.add("Reciprocal", y), zero)  # of -0, too
    is_negative = p.add("Less", p.add("Reciprocal", x), zero)
    one, minus = p.number(1), p.number(-1)
    side = p.add("Where", below, minus, one)
    steep = p.add("Greater", p.add("Abs", y), p.add("Abs", x))
    flat = p.add("Where", p.add("Equal", x, zero), one, x)
    upright = p.add("Where", p.add("Equal", y, zero), one, y)
    lying = p.add("Atan", p.add("Div", y, flat))
    turn = p.add("Where", is_negative, p.add("Mul", side, pi), zero)
    lying = p.add("Where", p.add("Equal", y, zero), p.add("Mul", y, zero), lying)
    standing = p.add("Sub", p.add("Mul", side, half), p.add("Atan", p.add("Div", x, upright)))
    return [p.add("Where", steep, standing, p.add("Add", lying, turn))]


@ROWS.row("ApproximateEqual", source=MATH)
def approximately_equal(p: Piece) -> Sequence[str]:
    """Whether elements differ by no more than the tolerance."""
    difference = p.add("Abs", p.add("Sub", p.name(0), p.name(1)))
    return [p.add("LessOrEqual", difference, p.number(float(p.attr("tolerance", 1e-5))))]


@ROWS.row("Erfc", source=MATH)
def erfc(p: Piece) -> Sequence[str]:
    """1 - erf(x)."""
    return [p.add("Sub", p.number(1), p.add("Erf", p.name()))]


@ROWS.row("ClipByValue", source=MATH)
def clip_by_value(p: Piece) -> Sequence[str]:
    """The first input between the second and the third."""
    return [p.add("Max", p.add("Min", p.name(0), p.name(2)), p.name(1))]


@ROWS.row("Relu6", source=NN)
def relu6(p: Piece) -> Sequence[str]:
    """Between 0 and 6."""
    return [p.add("Clip", p.name(), p.number(0), p.number(6))]


@ROWS.row("LeakyRelu", source=NN)
def leaky_relu(p: Piece) -> Sequence[str]:
    """alpha x below 0."""
    return [p.add("LeakyRelu", p.name(), alpha=float(p.attr("alpha", 0.2)))]


@ROWS.row("Softplus", source=NN)
def softplus(p: Piece) -> Sequence[str]:
    """log(1 + exp(x)): x where it is large, exp(x) where it is small.

    The limits are the kernel's: log of the element type's precision, and 2 more.
    """
    x, one = p.name(), p.number(1)
    limit = float(np.log(np.finfo(p.dtype()).eps)) + 2
    exp = p.add("Exp", p.add("Min", x, p.number(-limit)))
    u = p.add("Add", exp, one)
    close = p.add("Div", p.add("Mul", p.add("Log", u), exp), p.add("Sub", u, one))
    middle = p.add("Where", p.add("Equal", u, one), exp, close)
    small = p.add("Where", p.add("Less", x, p.number(limit)), exp, middle)
    return [p.add("Where", p.add("Greater", x, p.number(-limit)), x, small)]


@ROWS.row("Gelu", source=NN)
def gelu(p: Piece) -> Sequence[str]:
    """x by the share of the normal distribution below x."""
    x = p.name()
    share = p.add("Add", p.add("Erf", p.add("Mul", x, p.number(1 / sqrt(2)))), p.number(1))
    return [p.add("Mul", p.add("Mul", x, share), p.number(0.5))]


@ROWS.row("Select", source=MATH)
def select(p: Piece) -> Sequence[str]:
    """The second input where the first is true, else the third; a list of conditions chooses whole
    rows."""
    condition: Operand = p.name(0)
    if p.rank(0) == 1 and p.rank(1) > 1:
        condition = p.reshape(condition, (*p.shape(0), *(1 for _ in p.shape(1)[1:])))
    return [p.add("Where", condition, p.name(1), p.name(2))]


@ROWS.row("ZerosLike", source=ARRAY)
def zeros_like(p: Piece) -> Sequence[str]:
    """Zeros of the shape of the input."""
    if p.op.attrs.get("T") == "variant":
        return [empty_like(p)]
    return [p.const(np.zeros(p.shape(), p.dtype()))]


@ROWS.row("OnesLike", source=ARRAY)
def ones_like(p: Piece) -> Sequence[str]:
    """Ones of the shape of the input."""
    return [p.const(np.ones(p.shape(), p.dtype()))]
