"""The steps of optimisers."""

from __future__ import annotations

from divergraph.execute.translate import formulas
from divergraph.execute.translate.formulas import where
from divergraph.execute.translate.ge.table import ROWS, TRAINING, alike
from divergraph.execute.translate.piece import Expr, Outputs, Piece

ROWS.formulas(
    {kind: row for kind, row in formulas.TRAINING.items() if kind != "ApplyRMSProp"}, TRAINING
)
ROWS.formulas(
    {
        "ApplyMomentumD": formulas.momentum,
        "ApplyAdamD": formulas.adam,
        "ApplyAdagradD": formulas.adagrad,
    },
    TRAINING,
)


@ROWS.row("ApplyRMSPropD", "ApplyRMSProp", source=TRAINING)
def _rms(piece: Piece) -> Outputs:
    """Of the kernel's own op the three numbers are attributes."""
    attrs = [piece.op.attrs.get(name) for name in ("rho", "momentum", "epsilon")]
    numbers = [piece.number(float(each)) for each in attrs if isinstance(each, int | float)]
    if len(numbers) < len(attrs):
        return formulas.rms_prop(*alike(piece, *range(8)))
    var, ms, mom, rate, gradient = alike(piece, 0, 1, 2, 3, 4)
    rho, decay, epsilon = numbers
    return formulas.rms_prop(var, ms, mom, rate, rho, decay, epsilon, gradient)


@ROWS.formula("SGD", source=TRAINING)
def _sgd(
    variable: Expr,
    gradient: Expr,
    rate: Expr,
    accumulated: Expr,
    share: Expr,
    *,
    weight_decay: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
) -> Expr:
    if weight_decay:
        gradient = gradient + variable * weight_decay
    moved = accumulated * share + gradient * (1.0 - dampening)
    return variable - (gradient + moved * share if nesterov else moved) * rate


# Optimisers that scale each layer's rate by norms: LARS and the parts of LAMB.


@ROWS.formula("LarsV2", "LarsV2Update", source=TRAINING)
def _lars(
    *inputs: Expr, hyperpara: float = 0.001, epsilon: float = 1e-5, use_clip: bool = False
) -> Expr:
    weight, gradient, *squares, decay, rate = inputs
    norm, slope = (
        square.sqrt()
        for square in squares
        or [each.piece.add("ReduceSumSquare", each, keepdims=0) for each in (weight, gradient)]
    )
    share = norm * hyperpara / (slope + norm * decay + epsilon)
    if use_clip:
        share = (share / rate).min(1.0).max(0.0)
    return (gradient + weight * decay) * share


def _ratio(mean: Expr, mean_left: Expr, square: Expr, divisor: Expr, epsilon: Expr) -> Expr:
    """The first moment over the root of the second, both without their bias."""
    return mean / mean_left / ((square / divisor).sqrt() + epsilon)


@ROWS.row("LambApplyOptimizerAssign", source=TRAINING)
def _lamb_direction(piece: Piece) -> Outputs:
    inputs = alike(piece, *range(12))
    gradient, square, mean, weight, beta1, rest1, beta2, rest2, epsilon, steps, uses, decay = inputs
    square = square * beta2 + gradient * gradient * rest2
    mean = mean * beta1 + gradient * rest1
    ratio = _ratio(mean, 1.0 - beta1**steps, square, 1.0 - beta2**steps, epsilon)
    return [ratio + weight * (decay * uses), square, mean]


@ROWS.row("LambNextMV", source=TRAINING)
def _lamb_moments(piece: Piece) -> Outputs:
    inputs = alike(piece, *range(13))
    squared, square, left2, gradient, mean, left1, weight = inputs[:7]
    beta1, rest1, beta2, rest2, decay, epsilon = inputs[7:]
    square = square * beta2 + squared * rest2
    mean = mean * beta1 + gradient * rest1
    ratio = _ratio(mean, left1, square, left2, epsilon)
    return [ratio + weight * decay, mean, square, ratio]


@ROWS.formula("LambUpdateWithLrV2", "LambApplyWeightAssign", source=TRAINING)
def _lamb_step(
    norm: Expr, length: Expr, rate: Expr, direction: Expr, weight: Expr, *limits: Expr
) -> Expr:
    """A step as long as the weights are over the length of its direction, 1 where one is zero."""
    zero, one = limits or (0.0, 1.0)
    share = where((norm > zero) & (length > zero), norm / length, one)
    return weight - share * rate * direction
