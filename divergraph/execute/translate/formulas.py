"""Ops that several frameworks define alike, as formulas of their inputs and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from divergraph.execute.translate.contract import Formula
from divergraph.execute.translate.piece import Expr, Outputs

ONE_NODE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf"),
    *("Floor", "Neg", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
    *("Tanh", "Relu", "Softsign"),
)
"""Functions of one number that one ONNX op of the same name computes."""


def where(condition: Expr, one: Expr | float, other: Expr | float) -> Expr:
    """*one* where the *condition* holds, *other* elsewhere."""
    return condition.piece.add("Where", condition, one, other)


def clip(value: Expr, low: float, high: float) -> Expr:
    """*value* between two limits."""
    return value.piece.add("Clip", value, low, high)


def gelu(x: Expr) -> Expr:
    """Gelu by the hyperbolic tangent."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)
    return x * 0.5 * (inner.tanh() + 1.0)


def towards(old: Expr, new: Expr, decay: Expr) -> Expr:
    """A mean that moves by 1 - *decay*."""
    return old + (new - old) * (1 - decay)


ELEMENTWISE: Mapping[str, Formula] = {
    "Square": lambda x: x * x,
    "SquaredDifference": lambda x, y: square(x - y),
    "Rsqrt": lambda x: x.sqrt().reciprocal(),
    "NotEqual": lambda x, y: ~x.equals(y),
    "DivNoNan": lambda x, y: where(y.equals(0), 0, x / y),
    "Relu6Grad": lambda dy, x: where((x > 0) & (x < 6), dy, 0),
    "SoftplusGrad": lambda dy, x: dy / ((-x).exp() + 1),
    "EluGrad": lambda dy, y: where(y < 0, (y + 1) * dy, dy),
    "TanhGrad": lambda y, dy: dy * (1 - y * y),
    "SigmoidGrad": lambda y, dy: dy * y * (1 - y),
    "SqrtGrad": lambda y, dy: dy * 0.5 / y,
    "RsqrtGrad": lambda y, dy: dy * -0.5 * (y * y * y),
    "ReciprocalGrad": lambda y, dy: -(dy * (y * y)),
}
"""As TensorFlow's kernels have them, which GE follows."""


def square(x: Expr) -> Expr:
    """x * x."""
    return x * x


def momentum(
    var: Expr,
    accum: Expr,
    rate: Expr,
    gradient: Expr,
    decay: Expr,
    *,
    use_nesterov: bool = False,
) -> Outputs:
    """accum = accum momentum + grad; var - lr accum, or with Nesterov's step
    var - (grad lr + accum momentum lr)."""
    moved = accum * decay + gradient
    step = gradient * rate + moved * decay * rate if use_nesterov else moved * rate
    return [var - step, moved]


def adam(
    var: Expr,
    m: Expr,
    v: Expr,
    power1: Expr,
    power2: Expr,
    rate: Expr,
    beta1: Expr,
    beta2: Expr,
    epsilon: Expr,
    gradient: Expr,
    *,
    use_nesterov: bool = False,
) -> Outputs:
    """m and v move towards the gradient and its square; var moves by
    m lr sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + epsilon)."""
    alpha = rate * (1 - power2).sqrt() / (1 - power1)
    m, v = towards(m, gradient, beta1), towards(v, gradient * gradient, beta2)
    ahead = gradient * (1 - beta1) + beta1 * m if use_nesterov else m
    return [var - ahead * alpha / (epsilon + v.sqrt()), m, v]


def rms_prop(
    var: Expr,
    ms: Expr,
    mom: Expr,
    rate: Expr,
    rho: Expr,
    decay: Expr,
    epsilon: Expr,
    gradient: Expr,
) -> Outputs:
    """ms moves towards grad^2; mom = mom momentum + lr grad / sqrt(ms + epsilon); var - mom."""
    ms = towards(ms, gradient * gradient, rho)
    mom = mom * decay + gradient * rate / (ms + epsilon).sqrt()
    return [var - mom, ms, mom]


def adagrad(
    var: Expr, accum: Expr, rate: Expr, gradient: Expr, *, update_slots: bool = True
) -> Outputs:
    """accum + grad^2; var - lr grad / sqrt(accum)."""
    accum = accum + gradient * gradient if update_slots else accum
    return [var - gradient * rate / accum.sqrt(), accum]


TRAINING: Mapping[str, Formula] = {
    "Assign": lambda _var, value: value,
    "AssignAdd": lambda var, value: var + value,
    "AssignSub": lambda var, value: var - value,
    "ApplyGradientDescent": lambda var, alpha, delta: var - alpha * delta,
    "ApplyMomentum": momentum,
    "ApplyAdam": adam,
    "ApplyRMSProp": rms_prop,
    "ApplyAdagrad": adagrad,
}


def near_zero_log(x: Expr) -> Expr:
    """log(1 + x), also near 0: with u = 1 + x rounded it is log(u) x / (u - 1) (W. Kahan)."""
    u = x + 1
    close = where(abs(x) > 1, u.log(), u.log() * x / (u - 1))
    return where(u.equals(1), x, close)


def near_zero_exp(x: Expr) -> Expr:
    """exp(x) - 1, also near 0.

    With u = exp(x) rounded, (u - 1) x / log(u) is exact to rounding: the errors of u - 1 and of
    log(u) cancel (W. Kahan). Far from 0 nothing cancels, and log(u) has no value where u is 0 or
    infinite.
    """
    u = x.exp()
    close = where(abs(x) > 1, u - 1, (u - 1) * x / u.log())
    return where(u.equals(1), x, close)


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)): x where it is large, exp(x) where it is small.

    The limits are those of TensorFlow's kernel: log of the element type's precision, and 2 more.
    """
    limit = float(np.log(np.finfo(x.dtype).eps)) + 2
    exp = x.min(-limit).exp()
    u = exp + 1
    middle = where(u.equals(1), exp, u.log() * exp / (u - 1))
    return where(x > -limit, x, where(x < limit, exp, middle))
