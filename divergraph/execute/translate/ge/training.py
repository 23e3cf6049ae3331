"""Gradients of activations, and the steps of optimisers."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.ge.elementwise import alike
from divergraph.execute.translate.ge.table import ACTIVATION, MATH, ROWS, TRAINING, needed
from divergraph.execute.translate.piece import Piece


@ROWS.row("ReluGrad", source=ACTIVATION)
def _relu_gradient(piece: Piece) -> Sequence[str]:
    gradient, output = alike(piece, 0, 1)
    positive = piece.add("Greater", output, piece.number(0.0))
    return [piece.add("Where", positive, gradient, piece.number(0.0))]


@ROWS.row("Relu6Grad", source=ACTIVATION)
def _relu6_gradient(piece: Piece) -> Sequence[str]:
    gradient, output = alike(piece, 0, 1)
    above = piece.add("Greater", output, piece.number(0.0))
    inside = piece.add("And", above, piece.add("Less", output, piece.number(6.0)))
    return [piece.add("Where", inside, gradient, piece.number(0.0))]


@ROWS.row("LeakyReluGrad", source=ACTIVATION)
def _leaky_gradient(piece: Piece) -> Sequence[str]:
    gradient, output = alike(piece, 0, 1)
    slope = piece.number(float(piece.attr("negative_slope", 0.0)))
    positive = piece.add("Greater", output, piece.number(0.0))
    return [piece.add("Where", positive, gradient, piece.add("Mul", gradient, slope))]


@ROWS.row("EluGrad", source=ACTIVATION)
def _elu_gradient(piece: Piece) -> Sequence[str]:
    gradient, output = alike(piece, 0, 1)
    below = piece.add("Min", output, piece.number(0.0))
    return [piece.add("Mul", gradient, piece.add("Add", below, piece.number(1.0)))]


@ROWS.row("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", source=MATH)
def _by_output(piece: Piece) -> Sequence[str]:
    """Gradients of functions whose derivative follows from their own output."""
    output, gradient = alike(piece, 0, 1)
    kind, one = piece.op.type, piece.number(1.0)
    square = piece.add("Mul", output, output)
    if kind == "TanhGrad":
        slope = piece.add("Sub", one, square)
    elif kind == "SigmoidGrad":
        slope = piece.add("Sub", output, square)
    elif kind == "SqrtGrad":
        slope = piece.add("Div", piece.number(0.5), output)
    elif kind == "RsqrtGrad":
        cube = piece.add("Mul", square, output)
        slope = piece.add("Mul", cube, piece.number(-0.5))
    else:
        slope = piece.add("Neg", square)
    return [piece.add("Mul", slope, gradient)]


@ROWS.row("SoftplusGrad", source=ACTIVATION)
def _softplus_gradient(piece: Piece) -> Sequence[str]:
    gradient, value = alike(piece, 0, 1)
    return [piece.add("Mul", gradient, piece.add("Sigmoid", value))]


@ROWS.row("ApplyGradientDescent", source=TRAINING)
def _descent(piece: Piece) -> Sequence[str]:
    variable, rate, gradient = alike(piece, 0, 1, 2)
    return [piece.add("Sub", variable, piece.add("Mul", rate, gradient))]


@ROWS.row("ApplyMomentum", "ApplyMomentumD", source=TRAINING)
def _momentum(piece: Piece) -> Sequence[str]:
    variable, accumulated, rate, gradient, share = alike(piece, 0, 1, 2, 3, 4)
    moved = piece.add("Add", piece.add("Mul", accumulated, share), gradient)
    step = piece.add("Mul", moved, rate)
    if piece.attr("use_nesterov", False):
        ahead = piece.add("Mul", piece.add("Mul", moved, share), rate)
        step = piece.add("Add", piece.add("Mul", gradient, rate), ahead)
    return [piece.add("Sub", variable, step), moved]


@ROWS.row("ApplyAdam", "ApplyAdamD", source=TRAINING)
def _adam(piece: Piece) -> Sequence[str]:
    names = alike(piece, *range(10))
    variable, mean, square, power1, power2, rate, beta1, beta2, epsilon, gradient = names
    one = piece.number(1.0)
    rest1, rest2 = piece.add("Sub", one, beta1), piece.add("Sub", one, beta2)
    difference = piece.add("Sub", gradient, mean)
    mean = piece.add("Add", mean, piece.add("Mul", difference, rest1))
    difference = piece.add("Sub", piece.add("Mul", gradient, gradient), square)
    square = piece.add("Add", square, piece.add("Mul", difference, rest2))
    bias = piece.add("Sqrt", piece.add("Sub", one, power2))
    rate = piece.add("Div", piece.add("Mul", rate, bias), piece.add("Sub", one, power1))
    top = mean
    if piece.attr("use_nesterov", False):
        ahead = piece.add("Mul", gradient, rest1)
        top = piece.add("Add", piece.add("Mul", mean, beta1), ahead)
    below = piece.add("Add", piece.add("Sqrt", square), epsilon)
    step = piece.add("Mul", rate, piece.add("Div", top, below))
    return [piece.add("Sub", variable, step), mean, square]


@ROWS.row("ApplyRMSPropD", "ApplyRMSProp", source=TRAINING)
def _rms(piece: Piece) -> Sequence[str]:
    attrs = [piece.op.attrs.get(name) for name in ("rho", "momentum", "epsilon")]
    if all(isinstance(attr, int | float) for attr in attrs):
        variable, square, accumulated, rate, gradient = alike(piece, 0, 1, 2, 3, 4)
        rho, share, epsilon = (piece.number(float(piece.attr(n))) for n in _RMS)
    else:
        names = alike(piece, *range(8))
        variable, square, accumulated, rate, rho, share, epsilon, gradient = names
    difference = piece.add("Sub", piece.add("Mul", gradient, gradient), square)
    rest = piece.add("Sub", piece.number(1.0), rho)
    square = piece.add("Add", square, piece.add("Mul", difference, rest))
    root = piece.add("Sqrt", piece.add("Add", square, epsilon))
    step = piece.add("Div", piece.add("Mul", rate, gradient), root)
    accumulated = piece.add("Add", piece.add("Mul", accumulated, share), step)
    return [piece.add("Sub", variable, accumulated), square, accumulated]


_RMS = ("rho", "momentum", "epsilon")


@ROWS.row("SGD", source=TRAINING)
def _sgd(piece: Piece) -> Sequence[str]:
    variable, gradient, rate, accumulated, share = alike(piece, 0, 1, 2, 3, 4)
    decay = float(piece.attr("weight_decay", 0.0))
    if decay:
        gradient = piece.add("Add", gradient, piece.add("Mul", variable, piece.number(decay)))
    damped = piece.number(1.0 - float(piece.attr("dampening", 0.0)))
    moved = piece.add(
        "Add", piece.add("Mul", accumulated, share), piece.add("Mul", gradient, damped)
    )
    step = moved
    if piece.attr("nesterov", False):
        step = piece.add("Add", gradient, piece.add("Mul", moved, share))
    return [piece.add("Sub", variable, piece.add("Mul", step, rate))]


@ROWS.row("ApplyAdagradD", "ApplyAdagrad", source=TRAINING)
def _adagrad(piece: Piece) -> Sequence[str]:
    variable, accumulated, rate, gradient = alike(piece, 0, 1, 2, 3)
    if piece.attr("update_slots", True):
        accumulated = piece.add("Add", accumulated, piece.add("Mul", gradient, gradient))
    step = piece.add("Div", piece.add("Mul", gradient, rate), piece.add("Sqrt", accumulated))
    return [piece.add("Sub", variable, step), accumulated]


@ROWS.row("Assign", "AssignAdd", "AssignSub", source=TRAINING)
def _assign(piece: Piece) -> Sequence[str]:
    if piece.op.type == "Assign":
        return [needed(piece, 1)]
    variable, value = alike(piece, 0, 1)
    return [piece.add("Add" if piece.op.type == "AssignAdd" else "Sub", variable, value)]
