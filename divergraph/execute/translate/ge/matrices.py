"""Products of matrices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.ge.elementwise import along_channels
from divergraph.execute.translate.ge.fused import TAIL, with_tail
from divergraph.execute.translate.ge.table import MATRIX, NN, QUANT, ROWS, output_shape
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.values.array_types import Array

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
def _product(piece: Piece) -> Outputs:
    transposes = said_transposes(dict(piece.op.attrs)) or (False, False)
    # Sums of products of 8-bit integers are exact.
    wide = np.dtype(np.float64 if piece.dtype(0).kind in "iu" else np.float32)
    operands = [_operand(piece, at, swap, wide) for at, swap in enumerate(transposes)]
    product = piece.add("MatMul", *operands)
    added = piece.optional(2)
    if added is not None:
        product = product + _as(piece, added, 2, wide)
    return [with_tail(piece, _of_integers(piece, product))]


def _of_integers(piece: Piece, product: Expr) -> Expr:
    """What an op of integers puts out: integers, unless an activation of floats follows."""
    if piece.dtype(0).kind not in "iu":
        return product
    return piece.cast(product, np.float32 if piece.op.attrs.get(TAIL) else np.int32)


def _as(piece: Piece, value: Expr, at: int, kind: np.dtype[Any]) -> Expr:
    return value if piece.dtype(at) == kind else piece.cast(value, kind)


def _operand(piece: Piece, at: int, swap: bool, kind: np.dtype[Any]) -> Expr:
    value, rank = _as(piece, piece.name(at), at, kind), piece.rank(at)
    if not swap:
        return value
    return piece.transpose(value, *range(rank - 2), rank - 1, rank - 2)


@ROWS.row("FullyConnection", source=NN)
def _fully_connected(piece: Piece) -> Outputs:
    axis = int(piece.attr("axis", 1))
    outputs = int(piece.attr("num_output"))
    shape = piece.shape(0)
    rows, columns = prod(shape[:axis]), prod(shape[axis:])
    wide = np.dtype(np.float64 if piece.dtype(0).kind in "iu" else np.float32)
    value = piece.reshape(_as(piece, piece.name(0), 0, wide), (rows, columns))
    if prod(piece.shape(1)) != outputs * columns:
        raise NotTranslatedError(f"FullyConnection of weights of shape {piece.shape(1)}")
    weight = _as(piece, piece.name(1), 1, wide)
    if piece.attr("transpose", False):
        weight = piece.reshape(weight, (columns, outputs))
    else:
        weight = piece.transpose(piece.reshape(weight, (outputs, columns)), 1, 0)
    product = value @ weight
    added = piece.optional(2)
    if added is not None:
        added = _as(piece, piece.reshape(added, (1, -1)), 2, wide)
        product = product + added
    return [piece.reshape(with_tail(piece, _of_integers(piece, product)), output_shape(piece))]


# Ops between floats and the integers in which quantised ops compute.


_ROUNDED = {"Round": "Round", "Floor": "Floor", "Ceil": "Ceil", "Ceiling": "Ceil"}
_CUT = ("Trunc", "Truncate")
_INT8 = 2
"""GE's number of the element type int8."""
_LOW = 0xFFFFFFFF
UNROUNDED = "_unrounded"
"""The attribute that asks for what an op rounds, as floats."""


def _as_int8(piece: Piece, value: Expr, mode: str) -> Expr:
    if mode not in (*_ROUNDED, *_CUT):
        raise NotTranslatedError(f"{piece.op.type} that rounds by {mode}")
    if piece.op.attrs.get(UNROUNDED):
        return value
    rounded = value if mode in _CUT else piece.add(_ROUNDED[mode], value)  # a cast cuts, too
    ends = (np.array(-128.0, np.float32), np.array(127.0, np.float32))
    return piece.cast(piece.add("Clip", rounded, *ends), np.int8)


@ROWS.row("AscendQuant", source=QUANT)
def _quantised(piece: Piece) -> Outputs:
    if int(piece.attr("dst_type", _INT8)) != _INT8:
        raise NotTranslatedError("AscendQuant to another type than int8")
    scale = float(piece.attr("scale"))
    scale = scale * scale if piece.attr("sqrt_mode", False) else scale
    scaled = piece.name(0) * scale
    scaled = scaled + float(piece.attr("offset"))
    return [_as_int8(piece, scaled, str(piece.attr("round_mode", "Round")))]


@ROWS.row("AscendAntiQuant", source=QUANT)
def _back(piece: Piece) -> Outputs:
    scale = float(piece.attr("scale"))
    scale = scale * scale if piece.attr("sqrt_mode", False) else scale
    value = piece.cast(piece.name(0), np.float32)
    moved = value + float(piece.attr("offset"))
    return [moved * np.array(scale, np.float32)]


def _scales(piece: Piece) -> Array:
    """Scales of each channel: floats, or the lower halves of 64 bits whose upper ones hold shifts
    and offsets."""
    piece.name(1)
    value = piece.value(1)
    if value.dtype.kind == "f":
        return np.asarray(value, np.float32).reshape(-1)
    bits = value.reshape(-1).view(np.uint64)
    if (bits >> np.uint64(32)).any():
        raise NotTranslatedError(f"{piece.op.type} with shifts or offsets")
    return np.asarray((bits & np.uint64(_LOW)).astype(np.uint32).view(np.float32))


def _multiplied(piece: Piece) -> Expr:
    scales = _scales(piece)
    wide = piece.cast(piece.name(0), np.float64)  # int32 has more digits than float32
    shape = along_channels(piece, scales.size) if scales.size > 1 else ()
    product = wide * scales.astype(np.float64).reshape(shape)
    if piece.attr("sqrt_mode", False):
        product = product * scales.astype(np.float64).reshape(shape)
    product = piece.cast(product, np.float32)
    return product.relu() if piece.attr("relu_flag", False) else product


@ROWS.row("AscendDequant", source=QUANT)
def _dequantised(piece: Piece) -> Outputs:
    return [_multiplied(piece)]


@ROWS.row("AscendRequant", source=QUANT)
def _requantised(piece: Piece) -> Outputs:
    return [_as_int8(piece, _multiplied(piece), "Round")]
