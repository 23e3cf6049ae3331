"""What a step does to variables: their new values, as the ops of the old kind hand them on.

Inputs come as declared in core/ops/training_ops.cc; the formulas are those of the functors in
core/kernels/training_ops.cc. Ops on resources hand nothing on: what they leave of their first
variable is seen by those that read it behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import ROWS, STATE, TRAINING


@ROWS.row("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp", source=STATE)
def assign_add(p: Piece) -> Sequence[str]:
    """The variable with a value added or taken away."""
    kind = "Add" if p.op.type.startswith("AssignAdd") else "Sub"
    return [p.add(kind, p.name(0), p.name(1))]


@ROWS.row("Assign", "AssignVariableOp", source=STATE)
def assign(p: Piece) -> Sequence[str]:
    """The value the variable gets."""
    return [p.name(1)]


@ROWS.row("ApplyGradientDescent", "ResourceApplyGradientDescent", source=TRAINING)
def gradient_descent(p: Piece) -> Sequence[str]:
    """var - alpha delta."""
    return [p.add("Sub", p.name(0), p.add("Mul", p.name(1), p.name(2)))]


@ROWS.row("ApplyMomentum", "ResourceApplyMomentum", source=TRAINING)
def momentum(p: Piece) -> Sequence[str]:
    """accum = accum momentum + grad; var - lr accum, or with Nesterov's step
    var - (grad lr + accum momentum lr)."""
    var, accum, rate, gradient, decay = (p.name(at) for at in range(5))
    moved = p.add("Add", p.add("Mul", accum, decay), gradient)
    if not p.attr("use_nesterov", False):
        return [p.add("Sub", var, p.add("Mul", moved, rate))]
    ahead = p.add("Mul", p.add("Mul", moved, decay), rate)
    return [p.add("Sub", var, p.add("Add", p.add("Mul", gradient, rate), ahead))]


@ROWS.row("ApplyAdam", "ResourceApplyAdam", source=TRAINING)
def adam(p: Piece) -> Sequence[str]:
    """m and v move towards the gradient and its square; var moves by
    m lr sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + epsilon)."""
    var, m, v, power1, power2, rate, beta1, beta2, epsilon, gradient = (
        p.name(at) for at in range(10)
    )
    one = p.number(1)
    root = p.add("Sqrt", p.add("Sub", one, power2))
    alpha = p.add("Div", p.add("Mul", rate, root), p.add("Sub", one, power1))
    m = _towards(p, m, gradient, beta1)
    v = _towards(p, v, p.add("Mul", gradient, gradient), beta2)
    if p.attr("use_nesterov", False):
        share = p.add("Mul", gradient, p.add("Sub", one, beta1))
        m = p.add("Add", share, p.add("Mul", beta1, m))
    below = p.add("Add", epsilon, p.add("Sqrt", v))
    return [p.add("Sub", var, p.add("Div", p.add("Mul", m, alpha), below))]


def _towards(p: Piece, old: str, new: str, decay: str) -> str:
    """old + (new - old) (1 - decay)."""
    step = p.add("Mul", p.add("Sub", new, old), p.add("Sub", p.number(1), decay))
    return p.add("Add", old, step)


@ROWS.row("ApplyRMSProp", "ResourceApplyRMSProp", source=TRAINING)
def rms_prop(p: Piece) -> Sequence[str]:
    """ms moves towards grad^2; mom = mom momentum + lr grad / sqrt(ms + epsilon); var - mom."""
    var, ms, mom, rate, rho, decay, epsilon, gradient = (p.name(at) for at in range(8))
    ms = _towards(p, ms, p.add("Mul", gradient, gradient), rho)
    step = p.add("Div", p.add("Mul", gradient, rate), p.add("Sqrt", p.add("Add", ms, epsilon)))
    return [p.add("Sub", var, p.add("Add", p.add("Mul", mom, decay), step))]


@ROWS.row("ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp", source=TRAINING)
def centred_rms_prop(p: Piece) -> Sequence[str]:
    """As RMSProp, with the square of the mean gradient taken from ms."""
    var, mg, ms, mom, rate, rho, decay, epsilon, gradient = (p.name(at) for at in range(9))
    ms = _towards(p, ms, p.add("Mul", gradient, gradient), rho)
    mg = _towards(p, mg, gradient, rho)
    spread = p.add("Add", p.add("Sub", ms, p.add("Mul", mg, mg)), epsilon)
    step = p.add("Div", p.add("Mul", gradient, rate), p.add("Sqrt", spread))
    return [p.add("Sub", var, p.add("Add", p.add("Mul", mom, decay), step))]


@ROWS.row("ApplyAdagrad", "ResourceApplyAdagrad", source=TRAINING)
@ROWS.row("ApplyAdagradV2", "ResourceApplyAdagradV2", source=TRAINING)
def adagrad(p: Piece) -> Sequence[str]:
    """accum + grad^2; var - lr grad / (sqrt(accum) + epsilon), where V2 alone has an epsilon."""
    newer = p.op.type.endswith("V2")
    var, accum, rate = (p.name(at) for at in range(3))
    gradient = p.name(4 if newer else 3)
    if p.attr("update_slots", True):
        accum = p.add("Add", accum, p.add("Mul", gradient, gradient))
    root = p.add("Sqrt", accum)
    below = p.add("Add", root, p.name(3)) if newer else root
    return [p.add("Sub", var, p.add("Div", p.add("Mul", gradient, rate), below))]


@ROWS.row("ResourceApplyKerasMomentum", source=TRAINING)
def keras_momentum(p: Piece) -> Sequence[str]:
    """accum = accum momentum - lr grad; var + accum, or with Nesterov's step
    var + momentum accum - lr grad."""
    var, accum, rate, gradient, decay = (p.name(at) for at in range(5))
    step = p.add("Mul", rate, gradient)
    moved = p.add("Sub", p.add("Mul", accum, decay), step)
    if not p.attr("use_nesterov", False):
        return [p.add("Add", var, moved)]
    return [p.add("Add", var, p.add("Sub", p.add("Mul", moved, decay), step))]


@ROWS.row("ResourceApplyAdamWithAmsgrad", source=TRAINING)
def adam_with_largest(p: Piece) -> Sequence[str]:
    """As Adam, by the largest v there has been."""
    var, m, v, largest, power1, power2, rate, beta1, beta2, epsilon, gradient = (
        p.name(at) for at in range(11)
    )
    one = p.number(1)
    root = p.add("Sqrt", p.add("Sub", one, power2))
    alpha = p.add("Div", p.add("Mul", rate, root), p.add("Sub", one, power1))
    m = _towards(p, m, gradient, beta1)
    v = _towards(p, v, p.add("Mul", gradient, gradient), beta2)
    below = p.add("Add", p.add("Sqrt", p.add("Max", largest, v)), epsilon)
    return [p.add("Sub", var, p.add("Div", p.add("Mul", m, alpha), below))]


@ROWS.row("ApplyAdaMax", "ResourceApplyAdaMax", source=TRAINING)
def ada_max(p: Piece) -> Sequence[str]:
    """m moves towards the gradient, v = max(beta2 v, |grad|); var - lr m / (1 - beta1^t) /
    (v + epsilon)."""
    var, m, v, power, rate, beta1, beta2, epsilon, gradient = (p.name(at) for at in range(9))
    m = _towards(p, m, gradient, beta1)
    v = p.add("Max", p.add("Mul", beta2, v), p.add("Abs", gradient))
    share = p.add("Div", rate, p.add("Sub", p.number(1), power))
    step = p.add("Mul", share, p.add("Div", m, p.add("Add", v, epsilon)))
    return [p.add("Sub", var, step)]


@ROWS.row("ApplyAddSign", "ResourceApplyAddSign", source=TRAINING)
@ROWS.row("ApplyPowerSign", "ResourceApplyPowerSign", source=TRAINING)
def by_sign(p: Piece) -> Sequence[str]:
    """m moves towards the gradient; var - lr grad times alpha + decay sign(grad m), or e to the
    power of (its logarithm times) that."""
    var, m, rate, base, decay, beta, gradient = (p.name(at) for at in range(7))
    m = _towards(p, m, gradient, beta)
    sign = p.add("Mul", decay, p.add("Mul", p.add("Sign", gradient), p.add("Sign", m)))
    if p.op.type.endswith("AddSign"):
        factor = p.add("Add", base, sign)
    else:
        factor = p.add("Exp", p.add("Mul", base, sign))
    return [p.add("Sub", var, p.add("Mul", p.add("Mul", rate, factor), gradient))]


def _shrunk(p: Piece, value: str, rate: str, l1: str, l2: str) -> str:
    """*value* moved to zero by rate l1, and what is left over 1 + rate l2."""
    size = p.add("Sub", p.add("Abs", value), p.add("Mul", rate, l1))
    shrunk = p.add("Mul", p.add("Sign", value), p.add("Max", size, p.number(0)))
    moved = p.add("Where", p.add("Greater", l1, p.number(0)), shrunk, value)
    return p.add("Div", moved, p.add("Add", p.number(1), p.add("Mul", rate, l2)))


@ROWS.row("ApplyProximalGradientDescent", "ResourceApplyProximalGradientDescent", source=TRAINING)
def proximal_descent(p: Piece) -> Sequence[str]:
    """var - alpha delta, moved to zero by its l1 and l2."""
    var, rate, l1, l2, delta = (p.name(at) for at in range(5))
    return [_shrunk(p, p.add("Sub", var, p.add("Mul", rate, delta)), rate, l1, l2)]


@ROWS.row("ApplyProximalAdagrad", "ResourceApplyProximalAdagrad", source=TRAINING)
def proximal_adagrad(p: Piece) -> Sequence[str]:
    """As Adagrad, moved to zero by l1 and l2."""
    var, accum, rate, l1, l2, gradient = (p.name(at) for at in range(6))
    accum = p.add("Add", accum, p.add("Mul", gradient, gradient))
    rate = p.add("Div", rate, p.add("Sqrt", accum))
    return [_shrunk(p, p.add("Sub", var, p.add("Mul", gradient, rate)), rate, l1, l2)]


@ROWS.row("ApplyFtrl", "ApplyFtrlV2", "ResourceApplyFtrl", "ResourceApplyFtrlV2", source=TRAINING)
def ftrl(p: Piece) -> Sequence[str]:
    """linear + grad - (accum'^-power - accum^-power) / lr var; var is what of linear is over l1,
    over accum'^-power / lr + 2 l2. V2 shrinks the gradient's part in linear."""
    newer = "V2" in p.op.type
    var, accum, linear, gradient, rate, l1, l2 = (p.name(at) for at in range(7))
    power = p.add("Neg", p.name(8 if newer else 7))
    new = p.add("Add", accum, p.add("Mul", gradient, gradient))
    moved = gradient
    if newer:
        twice = p.add("Mul", p.number(2), p.add("Mul", p.name(7), var))
        moved = p.add("Add", gradient, twice)
    raised = p.add("Pow", new, power)
    change = p.add("Div", p.add("Sub", raised, p.add("Pow", accum, power)), rate)
    linear = p.add("Sub", p.add("Add", linear, moved), p.add("Mul", change, var))
    over = p.add("Sub", p.add("Mul", p.add("Sign", linear), l1), linear)
    below = p.add("Add", p.add("Div", raised, rate), p.add("Mul", p.number(2), l2))
    there = p.add("Greater", p.add("Abs", linear), l1)
    return [p.add("Where", there, p.add("Div", over, below), p.number(0))]


@ROWS.row("ApplyAdadelta", "ResourceApplyAdadelta", source=TRAINING)
def adadelta(p: Piece) -> Sequence[str]:
    """accum moves towards grad^2; var - lr grad sqrt(accum_update + epsilon) / sqrt(accum +
    epsilon)."""
    var, accum, accum_update, rate, rho, epsilon, gradient = (p.name(at) for at in range(7))
    one = p.number(1)
    square = p.add("Mul", p.add("Mul", gradient, gradient), p.add("Sub", one, rho))
    accum = p.add("Add", p.add("Mul", accum, rho), square)
    above = p.add("Sqrt", p.add("Add", accum_update, epsilon))
    below = p.add("Sqrt", p.add("Add", accum, epsilon))
    update = p.add("Mul", p.add("Div", above, below), gradient)
    return [p.add("Sub", var, p.add("Mul", update, rate))]


_SCATTERS = {
    "Add": "add",
    "Sub": "add",
    "Update": "none",
    "Mul": "mul",
    "Div": "mul",
    "Min": "min",
    "Max": "max",
}


@ROWS.row(
    *(f"{kind}{how}" for kind in ("Scatter", "ResourceScatter") for how in _SCATTERS), source=STATE
)
def scatter(p: Piece) -> Sequence[str]:
    """The variable with rows put, added, taken away, ... at the places that are listed."""
    how = p.op.type.removeprefix("Resource").removeprefix("Scatter")
    rest = p.shape(0)[1:]
    places = p.reshape(p.cast(p.name(1), np.int64), (*p.shape(1), 1))
    turned = {"Sub": "Neg", "Div": "Reciprocal"}.get(how)
    updates = p.add(turned, p.name(2)) if turned else p.name(2)
    wide = p.add("Expand", updates, p.ints(*p.shape(1), *rest))
    return [p.add("ScatterND", p.name(0), places, wide, reduction=_SCATTERS[how])]
