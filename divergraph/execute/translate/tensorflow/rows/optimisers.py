"""What a step does to variables: their new values, as the ops of the old kind hand them on.

Inputs come as declared in core/ops/training_ops.cc; the formulas are those of the functors in
core/kernels/training_ops.cc. Ops on resources hand nothing on: what they leave of their first
variable is seen by those that read it behind them. Ops with "Sparse" in their name change only
some rows of the variables: those their gradient has, one after the other, each as the variable
whole would change.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from divergraph.execute.translate import formulas
from divergraph.execute.translate.contract import Formula, Row, attributes_of
from divergraph.execute.translate.formulas import towards, where
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import ROWS, STATE, TRAINING


def _centred_rms_prop(
    var: Expr,
    mg: Expr,
    ms: Expr,
    mom: Expr,
    rate: Expr,
    rho: Expr,
    decay: Expr,
    epsilon: Expr,
    gradient: Expr,
) -> Expr:
    """As RMSProp, with the square of the mean gradient taken from ms."""
    ms, mg = towards(ms, gradient * gradient, rho), towards(mg, gradient, rho)
    step = gradient * rate / (ms - mg * mg + epsilon).sqrt()
    return var - (mom * decay + step)


def _adagrad_with_epsilon(
    var: Expr,
    accum: Expr,
    rate: Expr,
    epsilon: Expr,
    gradient: Expr,
    *,
    update_slots: bool = True,
) -> Expr:
    """accum + grad^2; var - lr grad / (sqrt(accum) + epsilon)."""
    accum = accum + gradient * gradient if update_slots else accum
    return var - gradient * rate / (accum.sqrt() + epsilon)


def _keras_momentum(
    var: Expr,
    accum: Expr,
    rate: Expr,
    gradient: Expr,
    decay: Expr,
    *,
    use_nesterov: bool = False,
) -> Expr:
    """accum = accum momentum - lr grad; var + accum, or with Nesterov's step
    var + momentum accum - lr grad."""
    step = rate * gradient
    moved = accum * decay - step
    return var + (moved * decay - step if use_nesterov else moved)


@ROWS.formula("ResourceApplyAdamWithAmsgrad", source=TRAINING)
def _adam_with_largest(
    var: Expr,
    m: Expr,
    v: Expr,
    largest: Expr,
    power1: Expr,
    power2: Expr,
    rate: Expr,
    beta1: Expr,
    beta2: Expr,
    epsilon: Expr,
    gradient: Expr,
) -> Expr:
    """As Adam, by the largest v there has been."""
    alpha = rate * (1 - power2).sqrt() / (1 - power1)
    m, v = towards(m, gradient, beta1), towards(v, gradient * gradient, beta2)
    return var - m * alpha / (largest.max(v).sqrt() + epsilon)


def _ada_max(
    var: Expr,
    m: Expr,
    v: Expr,
    power: Expr,
    rate: Expr,
    beta1: Expr,
    beta2: Expr,
    epsilon: Expr,
    gradient: Expr,
) -> Expr:
    """m moves towards the gradient, v = max(beta2 v, |grad|); var - lr m / (1 - beta1^t) /
    (v + epsilon)."""
    m, v = towards(m, gradient, beta1), (beta2 * v).max(abs(gradient))
    return var - rate / (1 - power) * (m / (v + epsilon))


def _by_sign(
    var: Expr, m: Expr, rate: Expr, base: Expr, decay: Expr, beta: Expr, gradient: Expr
) -> Expr:
    """m moves towards the gradient; var - lr grad times alpha + decay sign(grad m), or e to the
    power of (its logarithm times) that."""
    sign = decay * (gradient.sign() * towards(m, gradient, beta).sign())
    adds = var.piece.op.type.endswith("AddSign")
    return var - rate * (base + sign if adds else (base * sign).exp()) * gradient


def _shrunk(value: Expr, rate: Expr, l1: Expr, l2: Expr) -> Expr:
    """*value* moved to zero by rate l1, and what is left over 1 + rate l2."""
    moved = value.sign() * (abs(value) - rate * l1).max(0)
    return where(l1 > 0, moved, value) / (1 + rate * l2)


def _proximal_adagrad(
    var: Expr, accum: Expr, rate: Expr, l1: Expr, l2: Expr, gradient: Expr
) -> Expr:
    """As Adagrad, moved to zero by l1 and l2."""
    rate = rate / (accum + gradient * gradient).sqrt()
    return _shrunk(var - gradient * rate, rate, l1, l2)


def _ftrl(
    var: Expr,
    accum: Expr,
    linear: Expr,
    gradient: Expr,
    rate: Expr,
    l1: Expr,
    l2: Expr,
    *last: Expr,
) -> Expr:
    """linear + grad - (accum'^-power - accum^-power) / lr var; var is what of linear is over l1,
    over accum'^-power / lr + 2 l2. V2 shrinks the gradient's part in linear."""
    *shrinkage, power = last
    moved = gradient + 2 * (shrinkage[0] * var) if shrinkage else gradient
    raised = (accum + gradient * gradient) ** -power
    linear = linear + moved - (raised - accum**-power) / rate * var
    share = (linear.sign() * l1 - linear) / (raised / rate + 2 * l2)
    return where(abs(linear) > l1, share, 0)


def _adadelta(
    var: Expr,
    accum: Expr,
    accum_update: Expr,
    rate: Expr,
    rho: Expr,
    epsilon: Expr,
    gradient: Expr,
) -> Expr:
    """accum moves towards grad^2; var - lr grad sqrt(accum_update + epsilon) / sqrt(accum +
    epsilon)."""
    accum = accum * rho + gradient * gradient * (1 - rho)
    update = (accum_update + epsilon).sqrt() / (accum + epsilon).sqrt() * gradient
    return var - update * rate


def _proximal_descent(var: Expr, alpha: Expr, l1: Expr, l2: Expr, delta: Expr) -> Expr:
    """var - alpha delta, moved to zero by its l1 and l2."""
    return _shrunk(var - alpha * delta, alpha, l1, l2)


_OPTIMISERS: Mapping[str, Formula] = {
    "CenteredRMSProp": _centred_rms_prop,
    "AdagradV2": _adagrad_with_epsilon,
    "AdaMax": _ada_max,
    "AddSign": _by_sign,
    "PowerSign": _by_sign,
    "ProximalGradientDescent": _proximal_descent,
    "ProximalAdagrad": _proximal_adagrad,
    "Ftrl": _ftrl,
    "FtrlV2": _ftrl,
    "Adadelta": _adadelta,
}
for _kind, _formula in formulas.TRAINING.items():
    _of_resource = f"{_kind}VariableOp" if _kind.startswith("Assign") else f"Resource{_kind}"
    ROWS.formula(_kind, _of_resource, source=TRAINING)(_formula)
for _kind, _formula in _OPTIMISERS.items():
    ROWS.formula(f"Apply{_kind}", f"ResourceApply{_kind}", source=TRAINING)(_formula)
ROWS.formula("ResourceApplyKerasMomentum", source=TRAINING)(_keras_momentum)


def _sparse(dense: Formula, states: int, indices: int) -> Row:
    """The op that changes the rows *indices* says, of *states* variables, as *dense* does."""

    def row(p: Piece) -> Outputs:
        listed = p.name(indices)
        rows = [p.add("Gather", p.name(at), listed) for at in range(states)]
        others = [p.name(at) for at in range(states, len(p)) if at != indices]
        made = dense(*rows, *others, **attributes_of(p, dense))
        updated = made if isinstance(made, Expr) else made[0]
        places = p.reshape(p.cast(listed, np.int64), (*p.shape(indices), 1))
        return [p.add("ScatterND", p.name(0), places, updated)]

    return row


_SPARSE = {
    "Adadelta": (3, 7),
    "Adagrad": (2, 4),
    "AdagradV2": (2, 5),
    "Momentum": (2, 4),
    "RMSProp": (3, 8),
    "CenteredRMSProp": (4, 9),
    "Ftrl": (3, 4),
    "FtrlV2": (3, 4),
    "ProximalAdagrad": (2, 6),
    "ProximalGradientDescent": (1, 5),
}
"""How many variables there are, and which input lists their rows."""
for _kind, (_states, _indices) in _SPARSE.items():
    _dense = _OPTIMISERS.get(_kind) or formulas.TRAINING[f"Apply{_kind}"]
    _types = f"SparseApply{_kind}", f"ResourceSparseApply{_kind}"
    ROWS.row(*_types, source=TRAINING)(_sparse(_dense, _states, _indices))
ROWS.row("ResourceSparseApplyKerasMomentum", source=TRAINING)(_sparse(_keras_momentum, 2, 4))

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
def scatter(p: Piece) -> Outputs:
    """The variable with rows put, added, taken away, ... at the places that are listed."""
    how = p.op.type.removeprefix("Resource").removeprefix("Scatter")
    places = p.reshape(p.cast(p.name(1), np.int64), (*p.shape(1), 1))
    turned = {"Sub": "Neg", "Div": "Reciprocal"}.get(how)
    updates = p.add(turned, p.name(2)) if turned else p.name(2)
    wide = p.add("Expand", updates, p.ints(*p.shape(1), *p.shape(0)[1:]))
    return [p.add("ScatterND", p.name(0), places, wide, reduction=_SCATTERS[how])]
