"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import MATH, ROWS


@ROWS.row("MatMul", source=MATH)
def mat_mul(p: Piece) -> Sequence[str]:
    """The product of two matrices, each transposed where the op says so."""
    one = p.transpose(p.name(0), 1, 0) if p.attr("transpose_a", False) else p.name(0)
    right = p.transpose(p.name(1), 1, 0) if p.attr("transpose_b", False) else p.name(1)
    return [p.add("MatMul", one, right)]


@ROWS.row("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", source=MATH)
def batch_mat_mul(p: Piece) -> Sequence[str]:
    """Products of stacks of matrices; ``adj`` swaps the last two axes."""
    sides = []
    for at, name in enumerate(("adj_x", "adj_y")):
        order = list(range(p.rank(at)))
        if p.attr(name, False):
            order[-2:] = order[-1], order[-2]
        sides.append(p.transpose(p.name(at), *order))
    return [p.add("MatMul", *sides)]


@ROWS.row("Einsum", source="tensorflow/core/ops/linalg_ops.cc")
def einsum(p: Piece) -> Sequence[str]:
    """Products summed along the axes whose letters the result has not."""
    return [p.add("Einsum", *p.names, equation=p.attr("equation"))]
