"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.table import MATRIX, NN, ROWS, needed, optional, output_shape
from divergraph.execute.translate.ge.tails import with_tail
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
    operands = [_operand(piece, at, swap) for at, swap in enumerate(transposes)]
    made = piece.add("MatMul", *operands)
    added = optional(piece, 2)
    if added is not None:
        if piece.dtype(2) != np.float32:
            added = piece.cast(added, np.float32)
        made = piece.add("Add", made, added)
    return [with_tail(piece, made)]


def _operand(piece: Piece, at: int, swap: bool) -> str:
    value, rank = needed(piece, at), piece.rank(at)
    if piece.dtype(at) != np.float32:
        value = piece.cast(value, np.float32)
    if not swap:
        return value
    return piece.transpose(value, *range(rank - 2), rank - 1, rank - 2)


@ROWS.row("FullyConnection", source=NN)
def _fully_connected(piece: Piece) -> Sequence[str]:
    axis = int(piece.attr("axis", 1))
    outputs = int(piece.attr("num_output"))
    shape = piece.shape(0)
    rows, columns = prod(shape[:axis]), prod(shape[axis:])
    value = piece.reshape(needed(piece, 0), (rows, columns))
    if prod(piece.shape(1)) != outputs * columns:
        raise NotTranslatedError(f"FullyConnection of weights of shape {piece.shape(1)}")
    weight = needed(piece, 1)
    if piece.attr("transpose", False):
        weight = piece.reshape(weight, (columns, outputs))
    else:
        weight = piece.transpose(piece.reshape(weight, (outputs, columns)), 1, 0)
    made = piece.add("MatMul", value, weight)
    added = optional(piece, 2)
    if added is not None:
        made = piece.add("Add", made, piece.reshape(added, (1, -1)))
    return [piece.reshape(with_tail(piece, made), output_shape(piece))]
