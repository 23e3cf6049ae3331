"""Gradients of activations and other elementwise ops.

Most take what the op itself made, or its input, and the gradient behind it; the order differs
(``REGISTER_GRADIENT_OP`` and the kernels' functors in core/kernels).
"""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import MATH, NN, ROWS


@ROWS.row("ReluGrad", source=NN)
def relu_grad(p: Piece) -> Sequence[str]:
    """The gradient where the features (or outputs) are above 0.

    A feature within rounding of 0 may be above it in one run and not in another: its gradient is
    then whole or lost, and all gradients behind it move. In a training step of a ResNet-20 that
    happened to 2 of 1.5 million features; gradients differed by 0.5 % (norm) from TensorFlow's,
    though each op alone was within 4e-6. With TensorFlow's features they were within 1.5e-5;
    and TensorFlow's own move as far if its images are changed by 3e-7.
    """
    return [p.add("Where", p.add("Greater", p.name(1), p.number(0)), p.name(0), p.number(0))]


@ROWS.row("Relu6Grad", source=NN)
def relu6_grad(p: Piece) -> Sequence[str]:
    """The gradient where the features are between 0 and 6."""
    above = p.add("Greater", p.name(1), p.number(0))
    below = p.add("Less", p.name(1), p.number(6))
    return [p.add("Where", p.add("And", above, below), p.name(0), p.number(0))]


@ROWS.row("LeakyReluGrad", source=NN)
def leaky_relu_grad(p: Piece) -> Sequence[str]:
    """The gradient, by alpha where the features are not above 0."""
    less = p.add("Mul", p.name(0), p.number(float(p.attr("alpha", 0.2))))
    return [p.add("Where", p.add("Greater", p.name(1), p.number(0)), p.name(0), less)]


@ROWS.row("EluGrad", source=NN)
def elu_grad(p: Piece) -> Sequence[str]:
    """The gradient, by the output and 1 where that is below 0."""
    less = p.add("Mul", p.add("Add", p.name(1), p.number(1)), p.name(0))
    return [p.add("Where", p.add("Less", p.name(1), p.number(0)), less, p.name(0))]


_SELU_SCALE, _SELU_SCALE_ALPHA = (
    1.0507009873554804934193349852946,
    1.7580993408473768599402175208123,
)


@ROWS.row("SeluGrad", source=NN)
def selu_grad(p: Piece) -> Sequence[str]:
    """As of Elu, with Selu's two constants."""
    below = p.add("Mul", p.name(0), p.add("Add", p.name(1), p.number(_SELU_SCALE_ALPHA)))
    above = p.add("Mul", p.name(0), p.number(_SELU_SCALE))
    return [p.add("Where", p.add("Less", p.name(1), p.number(0)), below, above)]


@ROWS.row("SoftplusGrad", source=NN)
def softplus_grad(p: Piece) -> Sequence[str]:
    """The gradient by 1 + exp(-x)."""
    below = p.add("Add", p.add("Exp", p.add("Neg", p.name(1))), p.number(1))
    return [p.add("Div", p.name(0), below)]


@ROWS.row("SoftsignGrad", source=NN)
def softsign_grad(p: Piece) -> Sequence[str]:
    """The gradient by the square of 1 + |x|."""
    size = p.add("Add", p.add("Abs", p.name(1)), p.number(1))
    return [p.add("Div", p.name(0), p.add("Mul", size, size))]


@ROWS.row("TanhGrad", source=MATH)
def tanh_grad(p: Piece) -> Sequence[str]:
    """dy (1 - y y)."""
    y = p.name(0)
    return [p.add("Mul", p.name(1), p.add("Sub", p.number(1), p.add("Mul", y, y)))]


@ROWS.row("SigmoidGrad", source=MATH)
def sigmoid_grad(p: Piece) -> Sequence[str]:
    """dy y (1 - y)."""
    y = p.name(0)
    return [p.add("Mul", p.add("Mul", p.name(1), y), p.add("Sub", p.number(1), y))]


@ROWS.row("SqrtGrad", source=MATH)
def sqrt_grad(p: Piece) -> Sequence[str]:
    """dy 0.5 / y."""
    return [p.add("Div", p.add("Mul", p.name(1), p.number(0.5)), p.name(0))]


@ROWS.row("RsqrtGrad", source=MATH)
def rsqrt_grad(p: Piece) -> Sequence[str]:
    """dy (-0.5 y) y y."""
    y = p.name(0)
    cube = p.add("Mul", p.add("Mul", y, y), y)
    return [p.add("Mul", p.add("Mul", p.name(1), p.number(-0.5)), cube)]


@ROWS.row("ReciprocalGrad", "InvGrad", source=MATH)
def reciprocal_grad(p: Piece) -> Sequence[str]:
    """-dy y y."""
    y = p.name(0)
    return [p.add("Neg", p.add("Mul", p.name(1), p.add("Mul", y, y)))]
