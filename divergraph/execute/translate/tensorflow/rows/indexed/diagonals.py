"""Matrices by their diagonals, and bands of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, ROWS
from divergraph.values.array_types import Array


def _diagonal(p: Piece, at: int) -> int:
    """The number of the one diagonal that input *at* names.

    Raises:
        NotTranslatedError: it names several.
    """
    diagonals = set(p.integers(at))
    if len(diagonals) != 1:
        raise NotTranslatedError(f"{p.op.type} of several diagonals")
    return diagonals.pop()


def _places(rows: int, columns: int, number: int) -> tuple[Array, Array]:
    """The rows and columns of a diagonal."""
    count = max(min(rows - max(-number, 0), columns - max(number, 0)), 0)
    along = np.arange(count)
    return along + max(-number, 0), along + max(number, 0)


def _diagonal_of(p: Piece, tensor: str, shape: Sequence[int], number: int) -> str:
    *outer, rows, columns = shape
    down, across = _places(rows, columns, number)
    flat = p.reshape(tensor, (*outer, rows * columns))
    return p.add("Gather", flat, p.const(down * columns + across), axis=len(outer))


def _put(p: Piece, tensor: str, diagonal: str, shape: Sequence[int], number: int) -> str:
    """*tensor* with its diagonal replaced."""
    *outer, rows, columns = shape
    down, across = _places(rows, columns, number)
    flat = p.reshape(tensor, (int(np.prod(outer, dtype=np.int64)), rows * columns))
    line = p.reshape(diagonal, (int(np.prod(outer, dtype=np.int64)), len(down)))
    places = np.broadcast_to(down * columns + across, (int(np.prod(outer)), len(down)))
    put = p.add("ScatterElements", flat, p.const(places.astype(np.int64).copy()), line, axis=1)
    return p.reshape(put, shape)


@ROWS.row("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", source=ARRAY)
def matrix_diag_part(p: Piece) -> Sequence[str]:
    """A diagonal of each matrix."""
    return [_diagonal_of(p, p.name(0), p.shape(0), _diagonal(p, 1) if p.has(1) else 0)]


@ROWS.row("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", source=ARRAY)
def matrix_diag(p: Piece) -> Sequence[str]:
    """Matrices with a diagonal, and one value elsewhere."""
    *outer, count = p.shape(0)
    number = _diagonal(p, 1) if p.has(1) else 0
    rows, columns = (p.integers(at)[0] if p.has(at) else -1 for at in (2, 3))
    least_rows, least_columns = count + max(-number, 0), count + max(number, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows, columns = (
        (least_rows if rows == -1 else rows),
        (least_columns if columns == -1 else columns),
    )
    shape = (*outer, rows, columns)
    value = p.name(4) if p.has(4) else p.number(0)
    expanded = p.add("Expand", value, p.ints(*shape))
    return [_put(p, expanded, p.name(0), shape, number)]


@ROWS.row("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3", source=ARRAY)
def matrix_set_diag(p: Piece) -> Sequence[str]:
    """Each matrix with another diagonal."""
    number = _diagonal(p, 2) if p.has(2) else 0
    return [_put(p, p.name(0), p.name(1), p.shape(0), number)]


@ROWS.row("MatrixBandPart", source=ARRAY)
def matrix_band_part(p: Piece) -> Sequence[str]:
    """Each matrix with zeros outside of a band; a negative width keeps all on that side."""
    below, above = p.integers(1)[0], p.integers(2)[0]
    rows, columns = p.shape(0)[-2:]
    down, across = np.indices((rows, columns))
    mask = ((below < 0) | (down - across <= below)) & ((above < 0) | (across - down <= above))
    return [p.add("Where", p.const(mask), p.name(0), p.number(0))]


@ROWS.row("Diag", source=ARRAY)
def diag(p: Piece) -> Sequence[str]:
    """A tensor of twice as many axes, with the input where both halves of a place are the same."""
    count = int(np.prod(p.shape(0), dtype=np.int64))
    zeros = p.const(np.zeros((count, count), p.dtype(0)))
    result = _put(p, zeros, p.reshape(p.name(0), (count,)), (count, count), 0)
    return [p.reshape(result, (*p.shape(0), *p.shape(0)))]


@ROWS.row("DiagPart", source=ARRAY)
def diag_part(p: Piece) -> Sequence[str]:
    """What stands where both halves of a place are the same."""
    shape = p.shape(0)[: p.rank(0) // 2]
    count = int(np.prod(shape, dtype=np.int64))
    flat = p.reshape(p.name(0), (count, count))
    return [p.reshape(_diagonal_of(p, flat, (count, count), 0), shape)]
