"""Dropout by a mask that was drawn before."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from divergraph.execute.translate.ge.table import NN, ROWS, needed
from divergraph.execute.translate.piece import Piece

_BITS = np.arange(8, dtype=np.uint8)


@ROWS.row("DropOutDoMask", "DropOutDoMaskV3", "DropOutDoMaskV3D", source=NN)
def _dropped(piece: Piece) -> Sequence[str]:
    """Each element over the chance to be kept, or zero. The mask has a bit for each, the lowest of
    a byte first (V3: a byte), and reaches on to a multiple of 128."""
    value, mask = needed(piece, 0), needed(piece, 1)
    if piece.op.type == "DropOutDoMask":
        spread = piece.add("Unsqueeze", mask, piece.ints(1))
        shifted = piece.add("BitShift", spread, _BITS[None], direction="RIGHT")
        mask = piece.add("Mod", shifted, np.array(2, np.uint8))
    flat = piece.reshape(mask, (-1,))
    shape = piece.shape(0)
    seen = piece.add("Slice", flat, piece.ints(0), piece.ints(prod(shape)))
    keep = piece.cast(piece.reshape(seen, shape), np.bool_)
    if piece.op.type == "DropOutDoMaskV3D":
        chance = piece.number(float(piece.attr("keep_prob")))
    else:
        chance = piece.cast(needed(piece, 2), piece.dtype(0))
    return [piece.add("Where", keep, piece.add("Div", value, chance), piece.number(0.0))]
