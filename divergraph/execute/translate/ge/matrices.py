"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.fused.tails import TAIL, with_tail
from divergraph.execute.translate.ge.table import MATRIX, NN, ROWS, needed, optional, output_shape
from divergraph.execute.translate.piece import Piece

TRANSPOSES = (
    ("transpose_x1", "transpose_x2"),
    ("adj_x1", "adj_x2"),
    ("transpose_a", "transpose_b"),
)
"""The names under which the ops say that an operand is transposed."""


def said_transposes(attrs: object) -> tuple[bool, bool] | None:
    """Which operands are transposed; None if the attributes do not say."""
    if not isinstance(attrs, dict):
        return None
    for one, other in TRANSPOSES:
        if one in attrs or other in attrs:
            return bool(attrs.get(one, False)), bool(attrs.get(other, False))
    return None


@ROWS.row("MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2", source=MATRIX)
def _product(piece: Piece) -> Sequence[str]:
    transposes = said_transposes(dict(piece.op.attrs)) or (False, False)
    # Sums of products of 8-bit integers are exact.
    wide = np.dtype(np.float64 if piece.dtype(0).kind in "iu" else np.float32)
    operands = [_operand(piece, at, swap, wide) for at, swap in enumerate(transposes)]
    product = piece.add("MatMul", *operands)
    added = optional(piece, 2)
    if added is not None:
        product = piece.add("Add", product, _as(piece, added, 2, wide))
    return [with_tail(piece, _of_integers(piece, product))]


def _of_integers(piece: Piece, product: str) -> str:
    """What an op of integers puts out: integers, unless an activation of floats follows."""
    if piece.dtype(0).kind not in "iu":
        return product
    return piece.cast(product, np.float32 if piece.op.attrs.get(TAIL) else np.int32)


def _as(piece: Piece, value: str, at: int, kind: np.dtype[Any]) -> str:
    return value if piece.dtype(at) == kind else piece.cast(value, kind)


def _operand(piece: Piece, at: int, swap: bool, kind: np.dtype[Any]) -> str:
    value, rank = _as(piece, needed(piece, at), at, kind), piece.rank(at)
    if not swap:
        return value
    return piece.transpose(value, *range(rank - 2), rank - 1, rank - 2)


@ROWS.row("FullyConnection", source=NN)
def _fully_connected(piece: Piece) -> Sequence[str]:
    axis = int(piece.attr("axis", 1))
    outputs = int(piece.attr("num_output"))
    shape = piece.shape(0)
    rows, columns = prod(shape[:axis]), prod(shape[axis:])
    wide = np.dtype(np.float64 if piece.dtype(0).kind in "iu" else np.float32)
    value = piece.reshape(_as(piece, needed(piece, 0), 0, wide), (rows, columns))
    if prod(piece.shape(1)) != outputs * columns:
        raise NotTranslatedError(f"FullyConnection of weights of shape {piece.shape(1)}")
    weight = _as(piece, needed(piece, 1), 1, wide)
    if piece.attr("transpose", False):
        weight = piece.reshape(weight, (columns, outputs))
    else:
        weight = piece.transpose(piece.reshape(weight, (outputs, columns)), 1, 0)
    product = piece.add("MatMul", value, weight)
    added = optional(piece, 2)
    if added is not None:
        added = _as(piece, piece.reshape(added, (1, -1)), 2, wide)
        product = piece.add("Add", product, added)
    return [piece.reshape(with_tail(piece, _of_integers(piece, product)), output_shape(piece))]
