"""Images in other sizes, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.table import IMAGE, ROWS
from divergraph.values.array_types import Array


def _places(p: Piece, size: int, wanted: int) -> Array:
    """Where in *size* pixels each of *wanted* ones is taken, as float32
    (``ImageResizerState`` and the scalers of core/util/image_resizer_state.h)."""
    aligned = bool(p.attr("align_corners", False)) and wanted > 1
    above, below = (size - 1, wanted - 1) if aligned else (size, wanted)
    scale = np.float32(above) / np.float32(below)
    at = np.arange(wanted, dtype=np.float32)
    if p.attr("half_pixel_centers", False):
        return (at + np.float32(0.5)) * scale - np.float32(0.5)
    return at * scale


def _linear(p: Piece, size: int, wanted: int) -> Array:
    """The matrix that takes *size* pixels to *wanted* ones by their neighbours."""
    places = _places(p, size, wanted)
    low = np.clip(np.floor(places), 0, size - 1).astype(np.int64)
    high = np.clip(np.ceil(places), 0, size - 1).astype(np.int64)
    share = places - np.floor(places)
    found = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    np.add.at(found, (rows, low), 1 - share)
    np.add.at(found, (rows, high), share)
    return found


def _nearest(p: Piece, size: int, wanted: int) -> Array:
    """The pixel each of *wanted* ones is a copy of."""
    places = _places(p, size, wanted)
    if p.attr("align_corners", False) or p.attr("half_pixel_centers", False):
        chosen = np.floor(places + np.float32(0.5))
    else:
        chosen = np.floor(places)
    return np.clip(chosen, 0, size - 1).astype(np.int64)


def _by_matrices(p: Piece, image: str, rows: Array, columns: Array) -> str:
    """Height by one matrix, width by the other, of images with channels last."""
    first = p.transpose(image, 0, 3, 1, 2)
    wide = p.add("MatMul", first, p.const(columns.T.copy()))
    return p.transpose(p.add("MatMul", p.const(rows), wide), 0, 2, 3, 1)


@ROWS.row("ResizeBilinear", source=IMAGE)
def resize_bilinear(p: Piece) -> Sequence[str]:
    """Each pixel out of the four nearest ones."""
    high, wide = p.integers(1)
    image = p.cast(p.name(0), np.float32)
    rows, columns = _linear(p, p.shape(0)[1], high), _linear(p, p.shape(0)[2], wide)
    return [_by_matrices(p, image, rows, columns)]


@ROWS.row("ResizeBilinearGrad", source=IMAGE)
def resize_bilinear_grad(p: Piece) -> Sequence[str]:
    """The gradient given back to the four nearest pixels."""
    _, high, wide, _ = p.shape(1)
    rows, columns = _linear(p, high, p.shape(0)[1]), _linear(p, wide, p.shape(0)[2])
    found = _by_matrices(p, p.name(0), rows.T.copy(), columns.T.copy())
    return [p.cast(found, p.dtype(1))]


@ROWS.row("ResizeNearestNeighbor", source=IMAGE)
def resize_nearest(p: Piece) -> Sequence[str]:
    """Each pixel a copy of the nearest one."""
    high, wide = p.integers(1)
    rows = p.add("Gather", p.name(0), p.const(_nearest(p, p.shape(0)[1], high)), axis=1)
    return [p.add("Gather", rows, p.const(_nearest(p, p.shape(0)[2], wide)), axis=2)]


@ROWS.row("ResizeNearestNeighborGrad", source=IMAGE)
def resize_nearest_grad(p: Piece) -> Sequence[str]:
    """The sum of the gradients of all copies of a pixel."""
    high, wide = p.integers(1)
    matrices = []
    for size, wanted in ((high, p.shape(0)[1]), (wide, p.shape(0)[2])):
        copies = np.zeros((size, wanted), p.dtype(0))
        copies[_nearest(p, size, wanted), np.arange(wanted)] = 1
        matrices.append(copies)
    return [_by_matrices(p, p.name(0), *matrices)]
