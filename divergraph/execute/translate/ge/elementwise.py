"""Ops that treat each element by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import (
    ACTIVATION,
    ARRAY,
    MATH,
    ROWS,
    layout,
    needed,
    optional,
    output_shape,
)
from divergraph.execute.translate.piece import Piece

ROWS.same(
    {
        **{kind: kind for kind in ("Abs", "Neg", "Sqrt", "Reciprocal", "Sign")},
        **{kind: kind for kind in ("Floor", "Ceil", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan")},
        **{kind: kind for kind in ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf")},
        **dict.fromkeys(("Round", "Rint"), "Round"),
        "LogicalNot": "Not",
        "IsNan": "IsNaN",
        "IsInf": "IsInf",
    },
    MATH,
)
ROWS.same(
    {
        **{kind: kind for kind in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "Mish")},
        "HardSwish": "HardSwish",
    },
    ACTIVATION,
)

_BINARY = {
    **{kind: kind for kind in ("Add", "Sub", "Mul", "Div", "Greater", "Less", "Equal")},
    "AddV2": "Add",
    "RealDiv": "Div",
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
    "Maximum": "Max",
    "Minimum": "Min",
    "Pow": "Pow",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
}


@ROWS.row(*_BINARY, source=MATH)
def _binary(piece: Piece) -> Sequence[str]:
    one, right = alike(piece, 0, 1)
    return [piece.add(_BINARY[piece.op.type], one, right)]


@ROWS.row("NotEqual", source=MATH)
def _not_equal(piece: Piece) -> Sequence[str]:
    return [piece.add("Not", piece.add("Equal", *alike(piece, 0, 1)))]


def alike(piece: Piece, *places: int) -> list[str]:
    """Inputs in the element type of the first of them."""
    names = {at: needed(piece, at) for at in places}
    kind = piece.dtype(places[0])
    return [
        name if piece.dtype(at) == kind else piece.cast(name, kind) for at, name in names.items()
    ]


@ROWS.row("AddN", "AccumulateNV2", source=MATH)
def _add_n(piece: Piece) -> Sequence[str]:
    return [piece.add("Sum", *(needed(piece, at) for at in range(len(piece))))]


@ROWS.row("Square", source=MATH)
def _square(piece: Piece) -> Sequence[str]:
    return [piece.add("Mul", needed(piece, 0), needed(piece, 0))]


@ROWS.row("SquaredDifference", source=MATH)
def _squared_difference(piece: Piece) -> Sequence[str]:
    difference = piece.add("Sub", *alike(piece, 0, 1))
    return [piece.add("Mul", difference, difference)]


@ROWS.row("Rsqrt", source=MATH)
def _rsqrt(piece: Piece) -> Sequence[str]:
    return [piece.add("Reciprocal", piece.add("Sqrt", needed(piece, 0)))]


@ROWS.row("Log1p", "Expm1", source=MATH)
def _near_zero(piece: Piece) -> Sequence[str]:
    wide = piece.cast(needed(piece, 0), np.float64)  # 1 + x has no digits of x left in float32
    one = np.array(1.0)
    if piece.op.type == "Log1p":
        result = piece.add("Log", piece.add("Add", wide, one))
    else:
        result = piece.add("Sub", piece.add("Exp", wide), one)
    return [piece.cast(result, piece.dtype(0))]


@ROWS.row("DivNoNan", source=MATH)
def _div_no_nan(piece: Piece) -> Sequence[str]:
    one, right = alike(piece, 0, 1)
    zero = piece.number(0.0)
    is_zero = piece.add("Equal", right, zero)
    safe = piece.add("Where", is_zero, piece.number(1.0), right)
    return [piece.add("Where", is_zero, zero, piece.add("Div", one, safe))]


@ROWS.row("FloorDiv", "FloorMod", source=MATH)
def _floored(piece: Piece) -> Sequence[str]:
    one, right = alike(piece, 0, 1)
    kind = piece.dtype(0)
    if kind.kind != "f":
        if piece.op.type == "FloorMod":
            return [piece.add("Mod", one, right)]
        wide = [piece.cast(operand, np.float64) for operand in (one, right)]
        return [piece.cast(piece.add("Floor", piece.add("Div", *wide)), kind)]
    times = piece.add("Floor", piece.add("Div", one, right))
    if piece.op.type == "FloorDiv":
        return [times]
    return [piece.add("Sub", one, piece.add("Mul", times, right))]


@ROWS.row("Mod", source=MATH)
def _mod(piece: Piece) -> Sequence[str]:
    return [piece.add("Mod", *alike(piece, 0, 1), fmod=1)]


@ROWS.row("Muls", "Adds", "Maxs", "Mins", source=MATH)
def _with_number(piece: Piece) -> Sequence[str]:
    kinds = {"Muls": "Mul", "Adds": "Add", "Maxs": "Max", "Mins": "Min"}
    value = piece.number(float(piece.attr("value")))
    return [piece.add(kinds[piece.op.type], needed(piece, 0), value)]


@ROWS.row("Axpy", source=MATH)
def _axpy(piece: Piece) -> Sequence[str]:
    one, right = alike(piece, 0, 1)
    scaled = piece.add("Mul", right, piece.number(float(piece.attr("alpha"))))
    return [piece.add("Add", one, scaled)]


@ROWS.row("FusedMulAdd", source=MATH)
def _mul_add(piece: Piece) -> Sequence[str]:
    one, two, three = alike(piece, 0, 1, 2)
    return [piece.add("Add", piece.add("Mul", one, two), three)]


@ROWS.row("FusedMulAddN", source=MATH)
def _mul_add_scalar(piece: Piece) -> Sequence[str]:
    one, two, three = alike(piece, 0, 1, 2)
    return [piece.add("Add", piece.add("Mul", one, three), two)]


@ROWS.row("Addcmul", "Addcdiv", source=MATH)
def _add_product(piece: Piece) -> Sequence[str]:
    start, one, two = alike(piece, 0, 1, 2)
    product = piece.add("Mul" if piece.op.type == "Addcmul" else "Div", one, two)
    value = optional(piece, 3)
    if value is not None:
        product = piece.add("Mul", product, piece.cast(value, piece.dtype(0)))
    return [piece.add("Add", start, product)]


@ROWS.row("Eltwise", source=MATH)
def _eltwise(piece: Piece) -> Sequence[str]:
    names = [needed(piece, at) for at in range(len(piece))]
    mode = int(piece.attr("mode", 1))
    coeff = piece.attr("coeff", ())
    if mode == 1 and coeff:
        names = [
            piece.add("Mul", name, piece.number(float(factor)))
            for name, factor in zip(names, coeff, strict=True)
        ]
    if mode == 0:
        result = names[0]
        for name in names[1:]:
            result = piece.add("Mul", result, name)
        return [result]
    if mode not in (1, 2):
        raise NotTranslatedError(f"Eltwise of mode {mode}")
    return [piece.add("Sum" if mode == 1 else "Max", *names)]


@ROWS.row("Power", source=MATH)
def _power(piece: Piece) -> Sequence[str]:
    scaled = piece.add("Mul", needed(piece, 0), piece.number(float(piece.attr("scale", 1.0))))
    moved = piece.add("Add", scaled, piece.number(float(piece.attr("shift", 0.0))))
    return [piece.add("Pow", moved, piece.number(float(piece.attr("power", 1.0))))]


@ROWS.row("Exp", "Log", source=MATH)
def _exponential(piece: Piece) -> Sequence[str]:
    """To a base, -1 standing for e: base ** (scale x + shift), or the logarithm of that sum."""
    base = float(piece.attr("base", -1.0))
    value = needed(piece, 0)
    for kind, name, nothing in (("Mul", "scale", 1.0), ("Add", "shift", 0.0)):
        number = float(piece.attr(name, nothing))
        value = value if number == nothing else piece.add(kind, value, piece.number(number))
    by = 1.0 if base == -1.0 else math.log(base)
    if piece.op.type == "Log":
        result = piece.add("Log", value)
        return [result if by == 1.0 else piece.add("Div", result, piece.number(by))]
    return [piece.add("Exp", value if by == 1.0 else piece.add("Mul", value, piece.number(by)))]


@ROWS.row("ClipByValue", "ClipByValueV2", source=MATH)
def _clip(piece: Piece) -> Sequence[str]:
    value, low, high = alike(piece, 0, 1, 2)
    return [piece.add("Min", piece.add("Max", value, low), high)]


@ROWS.row("Relu6", "Relu6D", source=ACTIVATION)
def _relu6(piece: Piece) -> Sequence[str]:
    highest = 6.0 * float(piece.attr("scale", 1.0))
    return [piece.add("Clip", needed(piece, 0), piece.number(0.0), piece.number(highest))]


@ROWS.row("LeakyRelu", source=ACTIVATION)
def _leaky(piece: Piece) -> Sequence[str]:
    slope = float(piece.attr("negative_slope", 0.0))
    return [piece.add("LeakyRelu", needed(piece, 0), alpha=slope)]


@ROWS.row("PRelu", source=ACTIVATION)
def _prelu(piece: Piece) -> Sequence[str]:
    value, weight = alike(piece, 0, 1)
    if piece.rank(1) == 1 and piece.rank(0) > 1:
        weight = piece.reshape(weight, along_channels(piece, piece.shape(1)[0]))
    return [piece.add("PRelu", value, weight)]


def along_channels(piece: Piece, size: int) -> tuple[int, ...]:
    """The shape that lets *size* numbers run along the channels of the first input."""
    rank = piece.rank(0)
    at = layout(piece).find("C") if len(layout(piece)) == rank else -1
    at = at if at >= 0 else min(1, rank - 1)
    return tuple(size if axis == at else 1 for axis in range(rank))


@ROWS.row("Elu", source=ACTIVATION)
def _elu(piece: Piece) -> Sequence[str]:
    """scale max(x, 0) + scale alpha (exp(input_scale min(x, 0)) - 1)."""
    names = ("alpha", "scale", "input_scale")
    alpha, scale, inner = (float(piece.attr(name, 1.0)) for name in names)
    value, zero = needed(piece, 0), piece.number(0.0)
    if inner != 1.0:
        below = piece.add("Mul", piece.add("Min", value, zero), piece.number(inner))
        value = piece.add("Where", piece.add("Greater", value, zero), value, below)
    result = piece.add("Elu", value, alpha=alpha)
    return [result if scale == 1.0 else piece.add("Mul", result, piece.number(scale))]


@ROWS.row("Selu", source=ACTIVATION)
def _selu(piece: Piece) -> Sequence[str]:
    return [piece.add("Selu", needed(piece, 0))]


@ROWS.row("Gelu", source=ACTIVATION)
def _gelu(piece: Piece) -> Sequence[str]:
    return [gelu(piece, needed(piece, 0))]


def gelu(piece: Piece, value: str) -> str:
    """Gelu by the hyperbolic tangent."""
    cube = piece.add("Mul", piece.add("Mul", value, value), value)
    inner = piece.add("Add", value, piece.add("Mul", cube, piece.number(0.044715)))
    bent = piece.add("Tanh", piece.add("Mul", inner, piece.number(math.sqrt(2.0 / math.pi))))
    half = piece.add("Mul", value, piece.number(0.5))
    return piece.add("Mul", half, piece.add("Add", bent, piece.number(1.0)))


@ROWS.row("FastGelu", source=ACTIVATION)
def _fast_gelu(piece: Piece) -> Sequence[str]:
    return [_sigmoid_linear(piece, 1.702)]


@ROWS.row("Swish", source=ACTIVATION)
def _swish(piece: Piece) -> Sequence[str]:
    return [_sigmoid_linear(piece, float(piece.attr("scale", 1.0)))]


def _sigmoid_linear(piece: Piece, scale: float) -> str:
    value = needed(piece, 0)
    inner = piece.add("Mul", value, piece.number(scale))
    return piece.add("Mul", value, piece.add("Sigmoid", inner))


@ROWS.row("HardSigmoid", source=ACTIVATION)
def _hard_sigmoid(piece: Piece) -> Sequence[str]:
    alpha, beta = float(piece.attr("alpha", 0.16666666)), float(piece.attr("beta", 0.5))
    return [piece.add("HardSigmoid", needed(piece, 0), alpha=alpha, beta=beta)]


@ROWS.row("Select", "SelectV2", source=ARRAY)
def _select(piece: Piece) -> Sequence[str]:
    chosen, (one, other) = needed(piece, 0), alike(piece, 1, 2)
    if piece.dtype(0) != np.bool_:
        chosen = piece.cast(chosen, np.bool_)
    if piece.rank(0) == 1 and piece.rank(1) > 1 and piece.op.type == "Select":
        chosen = piece.reshape(chosen, (-1, *(1,) * (piece.rank(1) - 1)))
    return [piece.add("Where", chosen, one, other)]


@ROWS.row("ZerosLike", "OnesLike", source=ARRAY)
def _filled_alike(piece: Piece) -> Sequence[str]:
    value = np.array([float(piece.op.type == "OnesLike")], piece.dtype(0))
    from onnx import numpy_helper

    shape = piece.add("Shape", needed(piece, 0))
    return [piece.add("ConstantOfShape", shape, value=numpy_helper.from_array(value))]


@ROWS.row("Fill", "FillD", "FillV2D", source=ARRAY)
def _fill(piece: Piece) -> Sequence[str]:
    if piece.op.type == "FillV2D":
        value: str = piece.const(np.array(float(piece.attr("value", 0.0)), np.float32))
    else:
        value = needed(piece, 1 if piece.op.type == "Fill" else 0)
    return [piece.add("Expand", value, np.array(output_shape(piece), np.int64))]


@ROWS.row("BiasAdd", "Bias", source=MATH)
def _bias_add(piece: Piece) -> Sequence[str]:
    value, bias = alike(piece, 0, 1)
    if piece.rank(1) == 1:
        bias = piece.reshape(bias, along_channels(piece, piece.shape(1)[0]))
    elif piece.op.type == "Bias":
        bias = _from_axis(piece, bias, piece.shape(1))
    return [piece.add("Add", value, bias)]


@ROWS.row("Scale", source=MATH)
def _scale(piece: Piece) -> Sequence[str]:
    value, scale = alike(piece, 0, 1)
    result = piece.add("Mul", value, _from_axis(piece, scale, piece.shape(1)))
    bias = optional(piece, 2)
    return [
        result
        if bias is None
        else piece.add("Add", result, _from_axis(piece, bias, piece.shape(2)))
    ]


def _from_axis(piece: Piece, tensor: str, shape: tuple[int, ...]) -> str:
    """*tensor* laid along the axes of the first input from ``axis`` on."""
    rank = piece.rank(0)
    axis = int(piece.attr("axis", 1)) % rank
    if len(shape) == 1 and axis == 1:
        return piece.reshape(tensor, along_channels(piece, shape[0]))
    if axis + len(shape) > rank:
        raise NotTranslatedError(f"{piece.op.type} of {len(shape)} axes from axis {axis} of {rank}")
    return piece.reshape(tensor, (*shape, *(1,) * (rank - axis - len(shape))))
