"""The arguments that a call's row reads: those that a kernel may have taken otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from divergraph.execute.contract import Array
from divergraph.execute.translate.contract import KnownTensor, NeedsValueError, NotTranslatedError
from divergraph.execute.translate.piece import Piece, ReadArgument
from divergraph.execute.translate.torch.catalogue import ROWS
from graphstore.model import Op


def arguments_of(op: Op, given: Mapping[str, Array]) -> Mapping[str, ReadArgument]:
    """By attribute the arguments that the row of a recorded call reads, *given* its tensors by
    name; none of what has no row, or does not run."""
    if op.type not in ROWS:
        return {}
    names = [ref.tensor if ref is not None else "" for ref in op.inputs]
    known = [KnownTensor.of(given[name]) if name in given else None for name in names]
    piece = Piece(op, names, known)
    try:
        ROWS.entries[op.type].row(piece)
    except (NotTranslatedError, NeedsValueError):
        return {}
    return piece.arguments_read
