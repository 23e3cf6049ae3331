"""Layer normalisation and its gradients."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.ge.reductions import reduced
from divergraph.execute.translate.ge.table import NORM, ROWS, as_output, needed, output_shape
from divergraph.execute.translate.piece import Piece

_LEAST = 1e-12
"""What the gradients add to a variance; they have no attribute for it."""


def _rooted(piece: Piece, variance: str, usual: float) -> str:
    epsilon = piece.number(float(piece.attr("epsilon", usual)))
    return piece.add("Sqrt", piece.add("Add", variance, epsilon))


@ROWS.row("LayerNorm", source=NORM)
def _layer(piece: Piece) -> Sequence[str]:
    value, rank = needed(piece, 0), piece.rank(0)
    axes = range(int(piece.attr("begin_norm_axis", 0)) % rank, rank)
    mean = reduced(piece, "ReduceMean", value, axes, keep=True)
    difference = piece.add("Sub", value, mean)
    variance = reduced(
        piece, "ReduceMean", piece.add("Mul", difference, difference), axes, keep=True
    )
    normal = piece.add("Div", difference, _rooted(piece, variance, 1e-7))
    result = piece.add("Add", piece.add("Mul", normal, needed(piece, 1)), needed(piece, 2))
    sides = [mean, variance][: len(piece.op.outputs) - 1]
    return [result, *(as_output(piece, side, port)[0] for port, side in enumerate(sides, 1))]


def _normal(piece: Piece) -> tuple[str, str]:
    """The normalised input, and the root of the variance, of an op that reads the gradient, the
    input, its variance and its mean."""
    root = _rooted(piece, needed(piece, 2), _LEAST)
    return piece.add("Div", piece.add("Sub", needed(piece, 1), needed(piece, 3)), root), root


def _input_gradient(piece: Piece, normal: str, root: str) -> str:
    sizes = zip(piece.shape(1), piece.shape(3), strict=True)
    axes = [axis for axis, (size, mean) in enumerate(sizes) if size != 1 and mean == 1]
    scaled = piece.add("Mul", needed(piece, 0), needed(piece, 4))
    mean = reduced(piece, "ReduceMean", scaled, axes, keep=True)
    product = piece.add("Mul", scaled, normal)
    along = piece.add("Mul", normal, reduced(piece, "ReduceMean", product, axes, keep=True))
    scaled_difference = piece.add("Sub", piece.add("Sub", scaled, mean), along)
    return piece.add("Div", scaled_difference, root)


def _parameter_gradients(piece: Piece, normal: str, port: int) -> list[str]:
    """The gradients by gamma, which is output *port*, and by beta."""
    gradient = needed(piece, 0)
    axes = range(piece.rank(0) - len(output_shape(piece, port)))
    both = (piece.add("Mul", gradient, normal), gradient)
    return [reduced(piece, "ReduceSum", product, axes, keep=False) for product in both]


@ROWS.row("LayerNormXBackprop", "LayerNormXBackpropV2", "LayerNormXBackpropV3", source=NORM)
def _by_input(piece: Piece) -> Sequence[str]:
    normal, root = _normal(piece)
    gradient = _input_gradient(piece, normal, root)
    return [gradient, normal][: len(piece.op.outputs)]


@ROWS.row("LayerNormGrad", source=NORM)
def _by_all(piece: Piece) -> Sequence[str]:
    normal, root = _normal(piece)
    return [_input_gradient(piece, normal, root), *_parameter_gradients(piece, normal, 1)]


@ROWS.row("LayerNormBetaGammaBackprop", source=NORM)
def _by_parameters(piece: Piece) -> Sequence[str]:
    return _parameter_gradients(piece, _normal(piece)[0], 0)


@ROWS.row("LayerNormBetaGammaBackpropV2", source=NORM)
def _by_parameters_of_normal(piece: Piece) -> Sequence[str]:
    return _parameter_gradients(piece, needed(piece, 1), 0)
