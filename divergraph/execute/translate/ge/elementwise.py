"""Ops that treat each element by itself, and the gradients of activations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.execute.translate import formulas
from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.formulas import clip, gelu, where
from divergraph.execute.translate.ge.table import (
    ACTIVATION,
    ARRAY,
    MATH,
    NN,
    ROWS,
    alike,
    layout,
    output_shape,
)
from divergraph.execute.translate.piece import Expr, Outputs, Piece

ROWS.same({kind: kind for kind in formulas.ONE_NODE}, MATH)
ROWS.same({"Rint": "Round", "LogicalNot": "Not", "IsNan": "IsNaN", "IsInf": "IsInf"}, MATH)
ROWS.same({kind: kind for kind in ("Softplus", "Mish", "HardSwish", "Selu")}, ACTIVATION)
ROWS.formulas(formulas.ELEMENTWISE, MATH)
ROWS.formulas(
    {
        "Add AddV2": lambda x, y: x + y,
        "Sub": lambda x, y: x - y,
        "Mul": lambda x, y: x * y,
        "Div RealDiv": lambda x, y: x / y,
        "Pow": lambda x, y: x**y,
        "Greater": lambda x, y: x > y,
        "GreaterEqual": lambda x, y: x >= y,
        "Less": lambda x, y: x < y,
        "LessEqual": lambda x, y: x <= y,
        "Equal": lambda x, y: x.equals(y),
        "Maximum": lambda x, y: x.max(y),
        "Minimum": lambda x, y: x.min(y),
        "LogicalAnd": lambda x, y: x & y,
        "LogicalOr": lambda x, y: x | y,
        "Mod": lambda x, y: x.piece.add("Mod", x, y, fmod=1),
        "AddN AccumulateNV2": lambda *x: x[0].piece.add("Sum", *x),
        # 1 + x has no digits of x left in float32.
        "Log1p": lambda x: (x.cast(np.float64) + 1).log().cast(x.dtype),
        "Expm1": lambda x: (x.cast(np.float64).exp() - 1).cast(x.dtype),
        "Muls": lambda x, *, value: x * float(value),
        "Adds": lambda x, *, value: x + float(value),
        "Maxs": lambda x, *, value: x.max(float(value)),
        "Mins": lambda x, *, value: x.min(float(value)),
        "Axpy": lambda x, y, *, alpha: x + y * float(alpha),
        "FusedMulAdd": lambda x, y, z: x * y + z,
        "FusedMulAddN": lambda x, y, z: x * z + y,
        "Power": lambda x, *, scale=1.0, shift=0.0, power=1.0: (x * scale + shift) ** power,
        "ClipByValue ClipByValueV2": lambda x, low, high: x.max(low).min(high),
    },
    MATH,
)
ROWS.formulas(
    {
        "Relu6 Relu6D": lambda x, *, scale=1.0: clip(x, 0, 6.0 * scale),
        "LeakyRelu": lambda x, *, negative_slope=0.0: x.piece.add(
            "LeakyRelu", x, alpha=float(negative_slope)
        ),
        "Gelu": gelu,
        "FastGelu": lambda x: x * (x * 1.702).sigmoid(),
        "Swish": lambda x, *, scale=1.0: x * (x * scale).sigmoid(),
        "HardSigmoid": lambda x, *, alpha=0.16666666, beta=0.5: x.piece.add(
            "HardSigmoid", x, alpha=float(alpha), beta=float(beta)
        ),
        "ReluGrad": lambda dy, y: where(y > 0, dy, 0),
        "LeakyReluGrad": lambda dy, y, *, negative_slope=0.0: where(y > 0, dy, dy * negative_slope),
    },
    ACTIVATION,
)


@ROWS.row("FloorDiv", "FloorMod", source=MATH)
def _floored(piece: Piece) -> Outputs:
    one, right = alike(piece, 0, 1)
    kind, is_rest = piece.dtype(0), piece.op.type == "FloorMod"
    if kind.kind != "f":
        if is_rest:
            return [one % right]
        quotient = piece.cast(one, np.float64) / piece.cast(right, np.float64)
        return [piece.cast(quotient.floor(), kind)]
    times = (one / right).floor()
    return [one - times * right if is_rest else times]


@ROWS.row("Addcmul", "Addcdiv", source=MATH)
def _add_product(piece: Piece) -> Outputs:
    start, one, two = alike(piece, 0, 1, 2)
    product = one * two if piece.op.type == "Addcmul" else one / two
    value = piece.optional(3)
    return [start + (product if value is None else product * piece.cast(value, piece.dtype(0)))]


@ROWS.row("Eltwise", source=MATH)
def _eltwise(piece: Piece) -> Outputs:
    inputs = piece.values()
    mode = int(piece.attr("mode", 1))
    coeff = piece.attr("coeff", ())
    if mode == 1 and coeff:
        inputs = tuple(x * float(factor) for x, factor in zip(inputs, coeff, strict=True))
    if mode == 0:
        return [math.prod(inputs[1:], start=inputs[0])]
    if mode not in (1, 2):
        raise NotTranslatedError(f"Eltwise of mode {mode}")
    return [piece.add("Sum" if mode == 1 else "Max", *inputs)]


@ROWS.formula("Exp", "Log", source=MATH)
def _exponential(x: Expr, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Expr:
    """To a base, -1 standing for e: base ** (scale x + shift), or the logarithm of that sum."""
    x = x if scale == 1.0 else x * scale
    x = x if shift == 0.0 else x + shift
    by = 1.0 if base == -1.0 else math.log(base)
    if x.piece.op.type == "Log":
        return x.log() if by == 1.0 else x.log() / by
    return (x if by == 1.0 else x * by).exp()


@ROWS.row("PRelu", source=ACTIVATION)
def _prelu(piece: Piece) -> Outputs:
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


@ROWS.formula("Elu", source=ACTIVATION)
def _elu(x: Expr, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Expr:
    """scale max(x, 0) + scale alpha (exp(input_scale min(x, 0)) - 1)."""
    if input_scale != 1.0:
        x = where(x > 0, x, x.min(0) * input_scale)
    result = x.piece.add("Elu", x, alpha=float(alpha))
    return result if scale == 1.0 else result * scale


@ROWS.row("Select", "SelectV2", source=ARRAY)
def _select(piece: Piece) -> Outputs:
    chosen, (one, other) = piece.name(0), alike(piece, 1, 2)
    if piece.dtype(0) != np.bool_:
        chosen = piece.cast(chosen, np.bool_)
    if piece.rank(0) == 1 and piece.rank(1) > 1 and piece.op.type == "Select":
        chosen = piece.reshape(chosen, (-1, *(1,) * (piece.rank(1) - 1)))
    return [where(chosen, one, other)]


@ROWS.row("ZerosLike", "OnesLike", source=ARRAY)
def _filled_alike(piece: Piece) -> Outputs:
    from onnx import numpy_helper

    value = np.array([float(piece.op.type == "OnesLike")], piece.dtype(0))
    shape = piece.add("Shape", piece.name(0))
    return [piece.add("ConstantOfShape", shape, value=numpy_helper.from_array(value))]


@ROWS.row("Fill", "FillD", "FillV2D", source=ARRAY)
def _fill(piece: Piece) -> Outputs:
    if piece.op.type == "FillV2D":
        value = piece.const(np.array(float(piece.attr("value", 0.0)), np.float32))
    else:
        value = piece.name(1 if piece.op.type == "Fill" else 0)
    return [piece.add("Expand", value, np.array(output_shape(piece), np.int64))]


@ROWS.row("BiasAdd", "Bias", source=MATH)
def _bias_add(piece: Piece) -> Outputs:
    value, bias = alike(piece, 0, 1)
    if piece.rank(1) == 1:
        bias = piece.reshape(bias, along_channels(piece, piece.shape(1)[0]))
    elif piece.op.type == "Bias":
        bias = _from_axis(piece, bias, piece.shape(1))
    return [value + bias]


@ROWS.row("Scale", source=MATH)
def _scale(piece: Piece) -> Outputs:
    value, scale = alike(piece, 0, 1)
    result = value * _from_axis(piece, scale, piece.shape(1))
    bias = piece.optional(2)
    return [result if bias is None else result + _from_axis(piece, bias, piece.shape(2))]


def _from_axis(piece: Piece, tensor: Expr, shape: Sequence[int]) -> Expr:
    """*tensor* laid along the axes of the first input from ``axis`` on."""
    rank = piece.rank(0)
    axis = int(piece.attr("axis", 1)) % rank
    if len(shape) == 1 and axis == 1:
        return piece.reshape(tensor, along_channels(piece, shape[0]))
    if axis + len(shape) > rank:
        raise NotTranslatedError(f"{piece.op.type} of {len(shape)} axes from axis {axis} of {rank}")
    return piece.reshape(tensor, (*shape, *(1,) * (rank - axis - len(shape))))


# Dropout by a mask that was drawn before.


_BITS = np.arange(8, dtype=np.uint8)


@ROWS.row("DropOutDoMask", "DropOutDoMaskV3", "DropOutDoMaskV3D", source=NN)
def _dropped(piece: Piece) -> Outputs:
    """Each element over the chance to be kept, or zero. The mask has a bit for each, the lowest of
    a byte first (V3: a byte), and reaches on to a multiple of 128."""
    value, mask = piece.name(0), piece.name(1)
    if piece.op.type == "DropOutDoMask":
        spread = piece.add("Unsqueeze", mask, piece.ints(1))
        shifted = piece.add("BitShift", spread, _BITS[None], direction="RIGHT")
        mask = piece.add("Mod", shifted, 2)
    flat = piece.reshape(mask, (-1,))
    shape = piece.shape(0)
    seen = piece.add("Slice", flat, piece.ints(0), piece.ints(prod(shape)))
    keep = piece.cast(piece.reshape(seen, shape), np.bool_)
    if piece.op.type == "DropOutDoMaskV3D":
        chance = piece.number(float(piece.attr("keep_prob")))
    else:
        chance = piece.cast(piece.name(2), piece.dtype(0))
    return [piece.add("Where", keep, value / chance, 0.0)]
