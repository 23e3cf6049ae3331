"""Ops between floats and the integers in which quantised ops compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.elementwise import along_channels
from divergraph.execute.translate.ge.table import QUANT, ROWS, needed
from divergraph.execute.translate.piece import Piece
from divergraph.values.array_types import Array

_ROUNDED = {"Round": "Round", "Floor": "Floor", "Ceil": "Ceil", "Ceiling": "Ceil"}
_CUT = ("Trunc", "Truncate")
_INT8 = 2
"""GE's number of the element type int8."""
_LOW = 0xFFFFFFFF
UNROUNDED = "_unrounded"
"""The attribute that asks for what an op rounds, as floats."""


def _as_int8(piece: Piece, value: str, mode: str) -> str:
    if mode not in (*_ROUNDED, *_CUT):
        raise NotTranslatedError(f"{piece.op.type} that rounds by {mode}")
    if piece.op.attrs.get(UNROUNDED):
        return value
    rounded = value if mode in _CUT else piece.add(_ROUNDED[mode], value)  # a cast cuts, too
    ends = (np.array(-128.0, np.float32), np.array(127.0, np.float32))
    return piece.cast(piece.add("Clip", rounded, *ends), np.int8)


@ROWS.row("AscendQuant", source=QUANT)
def _quantised(piece: Piece) -> Sequence[str]:
    if int(piece.attr("dst_type", _INT8)) != _INT8:
        raise NotTranslatedError("AscendQuant to another type than int8")
    scale = float(piece.attr("scale"))
    scale = scale * scale if piece.attr("sqrt_mode", False) else scale
    scaled = piece.add("Mul", needed(piece, 0), piece.number(scale))
    scaled = piece.add("Add", scaled, piece.number(float(piece.attr("offset"))))
    return [_as_int8(piece, scaled, str(piece.attr("round_mode", "Round")))]


@ROWS.row("AscendAntiQuant", source=QUANT)
def _back(piece: Piece) -> Sequence[str]:
    scale = float(piece.attr("scale"))
    scale = scale * scale if piece.attr("sqrt_mode", False) else scale
    value = piece.cast(needed(piece, 0), np.float32)
    moved = piece.add("Add", value, np.array(float(piece.attr("offset")), np.float32))
    return [piece.add("Mul", moved, np.array(scale, np.float32))]


def _scales(piece: Piece) -> Array:
    """Scales of each channel: floats, or the lower halves of 64 bits whose upper ones hold shifts
    and offsets."""
    needed(piece, 1)
    value = piece.value(1)
    if value.dtype.kind == "f":
        return np.asarray(value, np.float32).reshape(-1)
    bits = value.reshape(-1).view(np.uint64)
    if (bits >> np.uint64(32)).any():
        raise NotTranslatedError(f"{piece.op.type} with shifts or offsets")
    return np.asarray((bits & np.uint64(_LOW)).astype(np.uint32).view(np.float32))


def _multiplied(piece: Piece) -> str:
    scales = _scales(piece)
    wide = piece.cast(needed(piece, 0), np.float64)  # int32 has more digits than float32
    shape = along_channels(piece, scales.size) if scales.size > 1 else ()
    product = piece.add("Mul", wide, scales.astype(np.float64).reshape(shape))
    if piece.attr("sqrt_mode", False):
        product = piece.add("Mul", product, scales.astype(np.float64).reshape(shape))
    product = piece.cast(product, np.float32)
    return piece.add("Relu", product) if piece.attr("relu_flag", False) else product


@ROWS.row("AscendDequant", source=QUANT)
def _dequantised(piece: Piece) -> Sequence[str]:
    return [_multiplied(piece)]


@ROWS.row("AscendRequant", source=QUANT)
def _requantised(piece: Piece) -> Sequence[str]:
    return [_as_int8(piece, _multiplied(piece), "Round")]
