"""Inverses, solutions, determinants and factors of matrices (core/ops/linalg_ops.cc).

All but determinants are computed in double precision and rounded once: what a factorisation loses
in float32 hangs on its order, and each library has its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.pieces import MICROSOFT
from divergraph.execute.translate.tensorflow.rows.table import ROWS

LINALG = "tensorflow/core/ops/linalg_ops.cc"
_MOST_COLUMNS = 128
"""Columns of matrices whose factors are found column by column."""


def _wide(p: Piece, at: int = 0) -> str:
    return p.cast(p.name(at), np.float64)


def _turned(p: Piece, tensor: str, rank: int) -> str:
    return p.transpose(tensor, *range(rank - 2), rank - 1, rank - 2)


def _inverse(p: Piece, tensor: str, shape: Sequence[int]) -> str:
    """The inverses of a stack of matrices held in float64."""
    if 0 in shape:
        return tensor
    inverse = p.add("Inverse", tensor, domain=MICROSOFT)
    # Nothing infers the shapes and types of this op: they are said.
    return p.reshape(p.cast(inverse, np.float64), shape)


def _own(p: Piece, tensor: str) -> str:
    return p.cast(tensor, p.dtype(0))


@ROWS.row("MatrixInverse", source=LINALG)
def matrix_inverse(p: Piece) -> Sequence[str]:
    """The inverse, transposed if ``adjoint``."""
    wide = _turned(p, _wide(p), p.rank()) if p.attr("adjoint", False) else _wide(p)
    return [_own(p, _inverse(p, wide, p.shape()))]


@ROWS.row("MatrixSolve", source=LINALG)
def matrix_solve(p: Piece) -> Sequence[str]:
    """What the matrix, transposed if ``adjoint``, takes to the second input."""
    wide = _turned(p, _wide(p), p.rank()) if p.attr("adjoint", False) else _wide(p)
    return [_own(p, p.add("MatMul", _inverse(p, wide, p.shape()), _wide(p, 1)))]


@ROWS.row("MatrixTriangularSolve", source=LINALG)
def triangular_solve(p: Piece) -> Sequence[str]:
    """As of the whole matrix, of one triangle of it; the other one is not looked at."""
    triangle = p.add("Trilu", _wide(p), upper=int(not p.attr("lower", True)))
    if p.attr("adjoint", False):
        triangle = _turned(p, triangle, p.rank())
    return [_own(p, p.add("MatMul", _inverse(p, triangle, p.shape()), _wide(p, 1)))]


@ROWS.row("Cholesky", source=LINALG)
def cholesky(p: Piece) -> Sequence[str]:
    """The lower triangle that times itself transposed gives the matrix, column by column. The upper
    triangle of the matrix is not looked at."""
    count = p.shape()[-1]
    if count > _MOST_COLUMNS:
        raise NotTranslatedError(f"{p.op.type} of matrices of {count} columns")
    if 0 in p.shape():
        return [p.add("Identity", p.name())]
    wide, columns = _wide(p), list[str]()
    for at in range(count):
        column = _columns(p, wide, at, at + 1)
        if columns:
            factor = p.add("Concat", *columns, axis=-1)
            row = _turned(p, _rows(p, factor, at, at + 1), p.rank())
            column = p.add("Sub", column, p.add("MatMul", factor, row))
        diagonal = p.add("Sqrt", _rows(p, column, at, at + 1))
        below = p.const((np.arange(count) >= at).astype(np.float64)[:, None])
        columns.append(p.add("Mul", p.add("Div", column, diagonal), below))
    return [_own(p, p.add("Concat", *columns, axis=-1))]


def _columns(p: Piece, tensor: str, begin: int, end: int) -> str:
    return p.add("Slice", tensor, p.ints(begin), p.ints(end), p.ints(-1))


def _rows(p: Piece, tensor: str, begin: int, end: int) -> str:
    return p.add("Slice", tensor, p.ints(begin), p.ints(end), p.ints(-2))


def _determinant(p: Piece) -> str:
    """Of each matrix, in float32 as ONNX Runtime has it."""
    if p.dtype() != np.float32:
        raise NotTranslatedError(f"{p.op.type} of {p.dtype()}")
    return p.add("Det", p.name())


@ROWS.row("MatrixDeterminant", source=LINALG)
def determinant(p: Piece) -> Sequence[str]:
    """One number of each matrix."""
    return [_determinant(p)]


@ROWS.row("LogMatrixDeterminant", source=LINALG)
def log_determinant(p: Piece) -> Sequence[str]:
    """The sign of the determinant, and the logarithm of its size."""
    value = _determinant(p)
    return [p.add("Sign", value), p.add("Log", p.add("Abs", value))]
