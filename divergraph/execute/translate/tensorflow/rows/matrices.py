"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.pieces import MICROSOFT
from divergraph.execute.translate.tensorflow.rows.table import MATH, ROWS


@ROWS.row("MatMul", source=MATH)
def mat_mul(p: Piece) -> Outputs:
    """The product of two matrices, each transposed where the op says so."""
    one = p.transpose(p.name(0), 1, 0) if p.attr("transpose_a", False) else p.name(0)
    right = p.transpose(p.name(1), 1, 0) if p.attr("transpose_b", False) else p.name(1)
    return [one @ right]


@ROWS.row("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", source=MATH)
def batch_mat_mul(p: Piece) -> Outputs:
    """Products of stacks of matrices; ``adj`` swaps the last two axes."""
    sides = []
    for at, name in enumerate(("adj_x", "adj_y")):
        order = list(range(p.rank(at)))
        if p.attr(name, False):
            order[-2:] = order[-1], order[-2]
        sides.append(p.transpose(p.name(at), *order))
    return [p.add("MatMul", *sides)]


@ROWS.row("Einsum", source="tensorflow/core/ops/linalg_ops.cc")
def einsum(p: Piece) -> Outputs:
    """Products summed along the axes whose letters the result has not."""
    return [p.add("Einsum", *p.names, equation=p.attr("equation"))]


# Inverses, solutions, determinants and factors of matrices (core/ops/linalg_ops.cc).
#
# All but determinants are computed in double precision and rounded once: what a factorisation loses
# in float32 hangs on its order, and each library has its own.


LINALG = "tensorflow/core/ops/linalg_ops.cc"
_MOST_COLUMNS = 128
"""Columns of matrices whose factors are found column by column."""


def _wide(p: Piece, at: int = 0) -> Expr:
    return p.cast(p.name(at), np.float64)


def _turned(p: Piece, tensor: Expr, rank: int) -> Expr:
    return p.transpose(tensor, *range(rank - 2), rank - 1, rank - 2)


def _inverse(p: Piece, tensor: Expr, shape: Sequence[int]) -> Expr:
    """The inverses of a stack of matrices held in float64."""
    if 0 in shape:
        return tensor
    inverse = p.add("Inverse", tensor, domain=MICROSOFT)
    # Nothing infers the shapes and types of this op: they are said.
    return p.reshape(p.cast(inverse, np.float64), shape)


def _own(p: Piece, tensor: Expr) -> Expr:
    return p.cast(tensor, p.dtype(0))


@ROWS.row("MatrixInverse", source=LINALG)
def matrix_inverse(p: Piece) -> Outputs:
    """The inverse, transposed if ``adjoint``."""
    wide = _turned(p, _wide(p), p.rank()) if p.attr("adjoint", False) else _wide(p)
    return [_own(p, _inverse(p, wide, p.shape()))]


@ROWS.row("MatrixSolve", source=LINALG)
def matrix_solve(p: Piece) -> Outputs:
    """What the matrix, transposed if ``adjoint``, takes to the second input."""
    wide = _turned(p, _wide(p), p.rank()) if p.attr("adjoint", False) else _wide(p)
    return [_own(p, _inverse(p, wide, p.shape()) @ _wide(p, 1))]


@ROWS.row("MatrixTriangularSolve", source=LINALG)
def triangular_solve(p: Piece) -> Outputs:
    """As of the whole matrix, of one triangle of it; the other one is not looked at."""
    triangle = p.add("Trilu", _wide(p), upper=int(not p.attr("lower", True)))
    if p.attr("adjoint", False):
        triangle = _turned(p, triangle, p.rank())
    return [_own(p, _inverse(p, triangle, p.shape()) @ _wide(p, 1))]


@ROWS.row("Cholesky", source=LINALG)
def cholesky(p: Piece) -> Outputs:
    """The lower triangle that times itself transposed gives the matrix, column by column. The upper
    triangle of the matrix is not looked at."""
    count = p.shape()[-1]
    if count > _MOST_COLUMNS:
        raise NotTranslatedError(f"{p.op.type} of matrices of {count} columns")
    if 0 in p.shape():
        return [p.add("Identity", p.name())]
    wide, columns = _wide(p), list[Expr]()
    for at in range(count):
        column = _columns(p, wide, at, at + 1)
        if columns:
            factor = p.add("Concat", *columns, axis=-1)
            row = _turned(p, _rows(p, factor, at, at + 1), p.rank())
            column = column - factor @ row
        diagonal = _rows(p, column, at, at + 1).sqrt()
        below = p.const((np.arange(count) >= at).astype(np.float64)[:, None])
        columns.append(column / diagonal * below)
    return [_own(p, p.add("Concat", *columns, axis=-1))]


def _columns(p: Piece, tensor: Expr, begin: int, end: int) -> Expr:
    return p.add("Slice", tensor, p.ints(begin), p.ints(end), p.ints(-1))


def _rows(p: Piece, tensor: Expr, begin: int, end: int) -> Expr:
    return p.add("Slice", tensor, p.ints(begin), p.ints(end), p.ints(-2))


def _determinant(p: Piece) -> Expr:
    """Of each matrix, in float32 as ONNX Runtime has it."""
    if p.dtype() != np.float32:
        raise NotTranslatedError(f"{p.op.type} of {p.dtype()}")
    return p.add("Det", p.name())


@ROWS.row("MatrixDeterminant", source=LINALG)
def determinant(p: Piece) -> Outputs:
    """One number of each matrix."""
    return [_determinant(p)]


@ROWS.row("LogMatrixDeterminant", source=LINALG)
def log_determinant(p: Piece) -> Outputs:
    """The sign of the determinant, and the logarithm of its size."""
    value = _determinant(p)
    return [value.sign(), abs(value).log()]
