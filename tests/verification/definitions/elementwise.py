"""Ops that treat each element by itself, by their formulas."""

from __future__ import annotations

import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _selu(x):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


_erf = np.vectorize(math.erf, otypes=[float])

ANY = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Sign": np.sign,
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Rint": np.rint,
    "Sin": np.sin,
    "Cos": np.cos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Erf": _erf,
    "Tanh": np.tanh,
    "Sigmoid": sigmoid,
    "Gelu": _gelu,
    "Square": np.square,
    "ZerosLike": np.zeros_like,
    "OnesLike": np.ones_like,
    "Relu": lambda x: np.maximum(x, 0),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "HardSwish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Selu": _selu,
    "FastGelu": lambda x: x * sigmoid(1.702 * x),
    "L2Loss": lambda x: np.array((x**2).sum() / 2),
}
POSITIVE = {
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Log1p": np.log1p,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Acosh": np.arccosh,
}
UNIT = {"Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atanh": np.arctanh}
BINARY = {
    "Add": np.add,
    "AddV2": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Greater": np.greater,
    "Less": np.less,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "GreaterEqual": np.greater_equal,
    "LessEqual": np.less_equal,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}
QUOTIENTS = {
    "Div": np.divide,
    "RealDiv": np.divide,
    "Mod": np.fmod,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
}
LOGICAL = {"LogicalAnd": np.logical_and, "LogicalOr": np.logical_or}


def functions(add, draw):
    """One input; one formula."""
    for op, formula in ANY.items():
        x = draw(4, 19)
        add(op, op, [x], [formula(x)])
    for op, formula in POSITIVE.items():
        x = draw.held(draw.positive(4, 19) + (op == "Acosh"))
        add(op, op, [x], [formula(x)])
    for op, formula in UNIT.items():
        x = draw.unit(4, 19)
        add(op, op, [x], [formula(x)])
    x = draw(4, 19)
    x[0, :3] = np.inf, -np.inf, np.nan
    add("IsInf", "IsInf", [x], [np.isinf(x)])
    add("IsNan", "IsNan", [x], [np.isnan(x)])
    add("LogicalNot", "LogicalNot", [x > 0], [~(x > 0)])


def parameters(add, draw):
    """One input, and numbers among the attributes."""
    x = draw(4, 19)
    add("muls", "Muls", [x], [x * 1.5], value=1.5)
    add("adds", "Adds", [x], [x + 1.5], value=1.5)
    add("maxs", "Maxs", [x], [np.maximum(x, 0.5)], value=0.5)
    add("mins", "Mins", [x], [np.minimum(x, 0.5)], value=0.5)
    add("relu6", "Relu6", [x * 8], [np.clip(x * 8, 0, 6)])
    add("relu6_d", "Relu6D", [x * 8], [np.clip(x * 8, 0, 3)], scale=0.5)
    add("leaky", "LeakyRelu", [x], [np.where(x > 0, x, 0.1 * x)], negative_slope=0.1)
    scaled = np.where(x > 0, x, 0.5 * np.expm1(2 * x)) * 1.5
    add("elu", "Elu", [x], [np.where(x > 0, x, 1.5 * np.expm1(x))], alpha=1.5)
    add("elu_scaled", "Elu", [x], [scaled], alpha=0.5, scale=1.5, input_scale=2.0)
    add("hard", "HardSigmoid", [x], [np.clip(0.25 * x + 0.5, 0, 1)], alpha=0.25, beta=0.5)
    add("hard_usual", "HardSigmoid", [x * 3], [np.clip(x / 2 + 0.5, 0, 1)])
    add("swish", "Swish", [x], [x * sigmoid(0.5 * x)], scale=0.5)
    p = draw.positive(4, 19)
    add("power", "Power", [p], [(2 * p + 1) ** 1.5], power=1.5, scale=2.0, shift=1.0)
    add("exp_base", "Exp", [x], [2.0 ** (0.5 * x + 1)], base=2.0, scale=0.5, shift=1.0)
    add("exp_moved", "Exp", [x], [np.exp(0.5 * x + 1)], base=-1.0, scale=0.5, shift=1.0)
    add("log_base", "Log", [p], [np.log2(2 * p + 1)], base=2.0, scale=2.0, shift=1.0)
    add("log_moved", "Log", [p], [np.log(2 * p + 1)], scale=2.0, shift=1.0)
    add("fill", "Fill", [np.array([3, 5], np.int32), draw.held(2.5)], [np.full((3, 5), 2.5)])
    add("fill_d", "FillD", [draw.held([2.5])], [np.full((3, 5), 2.5)], dims=(3, 5))


def pairs(add, draw):
    """Two inputs; one formula."""
    for op, formula in BINARY.items():
        x, y = draw(4, 19), draw(4, 19)
        x[1] = y[1]
        add(op, op, [x, y], [formula(x, y)])
    for op, formula in QUOTIENTS.items():
        x, y = draw.held(draw(4, 19) * 4), draw.positive(4, 19)
        add(op, op, [x, y], [formula(x, y)])
        if op != "RealDiv":
            whole, by = draw.whole(4, 19), draw.whole(4, 19, least=1, most=6)
            made = np.trunc(whole / by).astype(np.int32) if op == "Div" else formula(whole, by)
            add(f"{op}_whole", op, [whole, by], [made])
    for op, formula in LOGICAL.items():
        x, y = draw(4, 19) > 0, draw(4, 19) > 0
        add(op, op, [x, y], [formula(x, y)])
    x, y, p = draw(4, 19), draw(4, 19), draw.positive(4, 19)
    add("mul_one", "Mul", [x, y[:, :1]], [x * y[:, :1]])
    add("pow", "Pow", [p, x], [p**x])
    zeros = np.where(x > 0, y, 0)
    safe = np.divide(x, zeros, out=np.zeros_like(x), where=zeros != 0)
    add("div_no_nan", "DivNoNan", [x, zeros], [safe])
    add("axpy", "Axpy", [x, y], [x + 0.5 * y], alpha=0.5)


def several(add, draw):
    """Three inputs and more."""
    x, y, z = draw(4, 19), draw(4, 19), draw(4, 19)
    p, half = draw.positive(4, 19), draw.held([0.5])
    add("add_n", "AddN", [x, y, z], [x + y + z], N=3)
    add("accumulate", "AccumulateNV2", [x, y, z], [x + y + z], N=3)
    add("mul_add", "FusedMulAdd", [x, y, z], [x * y + z])
    add("mul_add_n", "FusedMulAddN", [x, y, half], [x * 0.5 + y])
    add("addcmul", "Addcmul", [x, y, z, half], [x + 0.5 * y * z])
    add("addcdiv", "Addcdiv", [x, y, p, half], [x + 0.5 * y / p])
    ends = [draw.held(-0.5), draw.held(0.75)]
    add("clip", "ClipByValue", [x, *ends], [np.clip(x, -0.5, 0.75)])
    add("clip_2", "ClipByValueV2", [x, *ends], [np.clip(x, -0.5, 0.75)])
    add("select", "Select", [x > y, x, y], [np.where(x > y, x, y)])
    rows = np.array([True, False, True, False])
    add("select_rows", "Select", [rows, x, y], [np.where(rows[:, None], x, y)])
    add("select_2", "SelectV2", [x[:, :1] > 0, x, y], [np.where(x[:, :1] > 0, x, y)])
    add("eltwise", "Eltwise", [x, y], [2 * x - y], mode=1, coeff=(2.0, -1.0), N=2)
    add("eltwise_mul", "Eltwise", [x, y, z], [x * y * z], mode=0, N=3)
    add("eltwise_max", "Eltwise", [x, y], [np.maximum(x, y)], mode=2, N=2)


def along_axes(add, draw):
    """Numbers that run along the channels, or along axes from one on."""
    x, c, n = draw(2, 6, 4, 5), draw(6), draw(5)
    four = ("NCHW", "", "NCHW")
    by = c[:, None, None]
    add("bias_add", "BiasAdd", [x, c], [x + by], four, data_format="NCHW")
    add("bias_add_last", "BiasAdd", [x, n], [x + n], ("NHWC", "", "NHWC"), data_format="NHWC")
    add("bias", "Bias", [x, c], [x + by], four, axis=1)
    add("bias_axes", "Bias", [x, x[0]], [x + x[0]], ("NCHW", "", "NCHW"), axis=1, num_axes=-1)
    add("scale", "Scale", [x, c, c + 1], [x * by + draw.held(by + 1)], ("NCHW", "", "", "NCHW"))
    add("scale_alone", "Scale", [x, c], [x * by], four, axis=1)
    add("prelu", "PRelu", [x, c], [np.where(x > 0, x, by * x)], four)
    add("prelu_one", "PRelu", [x, c[:1]], [np.where(x > 0, x, c[0] * x)], four)


PARTS = (functions, parameters, pairs, several, along_axes)
