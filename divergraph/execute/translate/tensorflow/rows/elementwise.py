"""Ops that work element by element, their gradients, and casts.

Gradients of activations take what the op itself made, or its input, and the gradient behind it; the
order differs (``REGISTER_GRADIENT_OP`` and the kernels' functors in core/kernels).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from divergraph.execute.translate import formulas
from divergraph.execute.translate.formulas import clip, near_zero_exp, near_zero_log, where
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.lists import added_lists, empty_like
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, MATH, NN, ROWS, numpy_type

ROWS.same({kind: kind for kind in formulas.ONE_NODE}, MATH)
ROWS.same(
    {
        "Add AddV2": "Add",
        "Sub": "Sub",
        "Mul": "Mul",
        "RealDiv Div TruncateDiv": "Div",
        "Maximum": "Max",
        "Minimum": "Min",
        "Exp": "Exp",
        "Log": "Log",
        "Inv": "Reciprocal",
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
ROWS.same({"Selu": "Selu", "Elu": "Elu"}, NN)
ROWS.formulas(formulas.ELEMENTWISE, MATH)
ROWS.formulas(
    {
        "Pow": lambda x, y: x**y,
        "IsFinite": lambda x: ~(x.piece.add("IsNaN", x) | x.piece.add("IsInf", x)),
        "MulNoNan": lambda x, y: where(y.equals(0), 0, x * y),
        "Xdivy": lambda x, y: where(x.equals(0), 0, x / y),
        "Xlogy": lambda x, y: where(x.equals(0), 0, x * y.log()),
        "Xlog1py": lambda x, y: where(x.equals(0), 0, x * near_zero_log(y)),
        "Expm1": near_zero_exp,
        "Log1p": near_zero_log,
        # Rounded to zero: it has the sign of x.
        "Mod TruncateMod": lambda x, y: x.piece.add("Mod", x, y, fmod=1),
        "ApproximateEqual": lambda x, y, *, tolerance=1e-5: abs(x - y) <= tolerance,
        "Erfc": lambda x: 1 - x.erf(),
        "ClipByValue": lambda x, low, high: x.min(high).max(low),
        "InvGrad": formulas.ELEMENTWISE["ReciprocalGrad"],
    },
    MATH,
)
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
ROWS.formulas(
    {
        "Relu6": lambda x: clip(x, 0, 6),
        "LeakyRelu": lambda x, *, alpha=0.2: x.piece.add("LeakyRelu", x, alpha=float(alpha)),
        "Softplus": formulas.softplus,
        "Gelu": lambda x: x * ((x * (1 / sqrt(2))).erf() + 1) * 0.5,
        "LeakyReluGrad": lambda dy, x, *, alpha=0.2: where(x > 0, dy, dy * alpha),
        "SeluGrad": lambda dy, y: where(y < 0, dy * (y + _SELU_SCALE_ALPHA), dy * _SELU_SCALE),
        "SoftsignGrad": lambda dy, x: dy / formulas.square(abs(x) + 1),
    },
    NN,
)


@ROWS.formula("ReluGrad", source=NN)
def relu_grad(gradient: Expr, features: Expr) -> Expr:
    """The gradient where the features (or outputs) are above 0.

    A feature within rounding of 0 may be above it in one run and not in another: its gradient is
    then whole or lost, and all gradients behind it move. In a training step of a ResNet-20 that
    happened to 2 of 1.5 million features; gradients differed by 0.5 % (norm) from TensorFlow's,
    though each op alone was within 4e-6. With TensorFlow's features they were within 1.5e-5;
    and TensorFlow's own move as far if its images are changed by 3e-7.
    """
    return where(features > 0, gradient, 0)


@ROWS.row(
    *("Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "EnsureShape"),
    *("CheckNumericsV2", "GuaranteeConst", "DeepCopy", "PlaceholderWithDefault", "RefIdentity"),
    *("ReadVariableOp", "DebugGradientIdentity", "DebugIdentity", "IdentityN"),
    source=ARRAY,
)
def identity(p: Piece) -> Outputs:
    """Hands its inputs on."""
    return p.values()


@ROWS.row("Cast", source=MATH)
def cast(p: Piece) -> Outputs:
    """Another element type; floats become integers towards zero."""
    return [p.cast(p.name(), numpy_type(p.attr("DstT")))]


@ROWS.row("AddN", "AccumulateNV2", source=MATH)
def add_n(p: Piece) -> Outputs:
    """The sum of all inputs."""
    if p.op.attrs.get("T") == "variant":
        return [added_lists(p)]
    return [p.name() if len(p) == 1 else p.add("Sum", *p.values())]


@ROWS.formula("FloorDiv", source=MATH)
def floor_div(x: Expr, y: Expr) -> Expr:
    """x / y rounded down."""
    return (x / y).floor() if x.dtype.kind == "f" else (x - x % y) / y


@ROWS.formula("FloorMod", source=MATH)
def floor_mod(x: Expr, y: Expr) -> Expr:
    """What is left of x after it was divided by y and rounded down: it has the sign of y."""
    if x.dtype.kind != "f":
        return x % y
    rest = x.piece.add("Mod", x, y, fmod=1)
    wrong = ((rest < 0) ^ (y < 0)) & ~rest.equals(0)
    return where(wrong, rest + y, rest)


@ROWS.formula("Atan2", source=MATH)
def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), in its quadrant; signs of zeros count."""
    below, is_negative = y.reciprocal() < 0, x.reciprocal() < 0  # of -0, too
    side = where(below, y.piece.number(-1), 1)
    flat, upright = where(x.equals(0), 1, x), where(y.equals(0), 1, y)
    lying = where(y.equals(0), y * 0, (y / flat).atan())
    turn = where(is_negative, side * np.pi, 0)
    standing = side * (np.pi / 2) - (x / upright).atan()
    return where(abs(y) > abs(x), standing, lying + turn)


@ROWS.formula("Select", source=MATH)
def select(condition: Expr, one: Expr, other: Expr) -> Expr:
    """The second input where the first is true, else the third; a list of conditions chooses whole
    rows."""
    shape, rank = condition.shape, len(one.shape)
    if len(shape) == 1 and rank > 1:
        condition = condition.piece.reshape(condition, (*shape, *(1,) * (rank - 1)))
    return where(condition, one, other)


@ROWS.row("ZerosLike", "OnesLike", source=ARRAY)
def filled_like(p: Piece) -> Outputs:
    """Zeros or ones of the shape of the input."""
    if p.op.attrs.get("T") == "variant":
        return [empty_like(p)]
    return [p.const(np.full(p.shape(), int(p.op.type == "OnesLike"), p.dtype()))]
