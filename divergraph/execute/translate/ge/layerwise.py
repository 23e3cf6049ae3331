"""Steps of the optimisers that scale each layer's rate by norms: LARS and the parts of LAMB."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.ge.elementwise import alike
from divergraph.execute.translate.ge.table import ROWS, TRAINING
from divergraph.execute.translate.piece import Piece


@ROWS.row("LarsV2", "LarsV2Update", source=TRAINING)
def _lars(piece: Piece) -> Sequence[str]:
    weight, gradient, *options = alike(piece, *range(len(piece)))
    decay, rate = options[-2:]
    squares = options[:-2] or [
        piece.add("ReduceSumSquare", tensor, keepdims=0) for tensor in (weight, gradient)
    ]
    norm, slope = (piece.add("Sqrt", square) for square in squares)
    top = piece.add("Mul", norm, piece.number(float(piece.attr("hyperpara", 0.001))))
    below = piece.add("Add", slope, piece.add("Mul", norm, decay))
    below = piece.add("Add", below, piece.number(float(piece.attr("epsilon", 1e-5))))
    share = piece.add("Div", top, below)
    if piece.attr("use_clip", False):
        ends = piece.number(0.0), piece.number(1.0)
        share = piece.add("Max", piece.add("Min", piece.add("Div", share, rate), ends[1]), ends[0])
    decayed = piece.add("Add", gradient, piece.add("Mul", weight, decay))
    return [piece.add("Mul", decayed, share)]


def _moment(piece: Piece, moment: str, decay: str, value: str, rest: str) -> str:
    return piece.add("Add", piece.add("Mul", moment, decay), piece.add("Mul", value, rest))


def _ratio(piece: Piece, mean: str, mean_left: str, square: str, divisor: str, epsilon: str) -> str:
    """The first moment over the root of the second, both without their bias."""
    root = piece.add("Sqrt", piece.add("Div", square, divisor))
    return piece.add("Div", piece.add("Div", mean, mean_left), piece.add("Add", root, epsilon))


def _decayed(piece: Piece, ratio: str, weight: str, decay: str) -> str:
    return piece.add("Add", ratio, piece.add("Mul", weight, decay))


@ROWS.row("LambApplyOptimizerAssign", source=TRAINING)
def _lamb_direction(piece: Piece) -> Sequence[str]:
    names = alike(piece, *range(12))
    gradient, square, mean, weight, beta1, rest1, beta2, rest2, epsilon, steps, uses, decay = names
    square = _moment(piece, square, beta2, piece.add("Mul", gradient, gradient), rest2)
    mean = _moment(piece, mean, beta1, gradient, rest1)
    one = piece.number(1.0)
    divisors = [piece.add("Sub", one, piece.add("Pow", beta, steps)) for beta in (beta1, beta2)]
    ratio = _ratio(piece, mean, divisors[0], square, divisors[1], epsilon)
    return [_decayed(piece, ratio, weight, piece.add("Mul", decay, uses)), square, mean]


@ROWS.row("LambNextMV", source=TRAINING)
def _lamb_moments(piece: Piece) -> Sequence[str]:
    names = alike(piece, *range(13))
    squared, square, left2, gradient, mean, left1, weight = names[:7]
    beta1, rest1, beta2, rest2, decay, epsilon = names[7:]
    square = _moment(piece, square, beta2, squared, rest2)
    mean = _moment(piece, mean, beta1, gradient, rest1)
    ratio = _ratio(piece, mean, left1, square, left2, epsilon)
    return [_decayed(piece, ratio, weight, decay), mean, square, ratio]


@ROWS.row("LambUpdateWithLrV2", "LambApplyWeightAssign", source=TRAINING)
def _lamb_step(piece: Piece) -> Sequence[str]:
    """A step as long as the weights are over the length of its direction, 1 where one is zero."""
    norm, length, rate, direction, weight, *limits = alike(piece, *range(len(piece)))
    zero, one = limits or (piece.number(0.0), piece.number(1.0))
    both = piece.add("And", *(piece.add("Greater", tensor, zero) for tensor in (norm, length)))
    share = piece.add("Where", both, piece.add("Div", norm, length), one)
    step = piece.add("Mul", piece.add("Mul", share, rate), direction)
    return [piece.add("Sub", weight, step)]
