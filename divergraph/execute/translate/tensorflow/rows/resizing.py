"""Images in other sizes, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
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
    matrix = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    np.add.at(matrix, (rows, low), 1 - share)
    np.add.at(matrix, (rows, high), share)
    return matrix


def _nearest(p: Piece, size: int, wanted: int) -> Array:
    """The pixel each of *wanted* ones is a copy of."""
    places = _places(p, size, wanted)
    if p.attr("align_corners", False) or p.attr("half_pixel_centers", False):
        chosen = np.floor(places + np.float32(0.5))
    else:
        chosen = np.floor(places)
    return np.clip(chosen, 0, size - 1).astype(np.int64)


def _by_matrices(p: Piece, image: Expr, rows: Array, columns: Array) -> Expr:
    """Height by one matrix, width by the other, of images with channels last."""
    wide = p.transpose(image, 0, 3, 1, 2) @ p.const(columns.T.copy())
    return p.transpose(p.const(rows) @ wide, 0, 2, 3, 1)


_STEPS = 1024
"""TensorFlow looks cubic weights up for so many places between two pixels."""


def _cubic_weights(bend: np.float32) -> Array:
    """The weight of a pixel by how many steps it is away, up to two pixels: cubics that meet
    smoothly; *bend* is their slope one pixel away."""
    away = np.arange(2 * _STEPS + 1, dtype=np.float32) / np.float32(_STEPS)
    close = ((bend + 2) * away - (bend + 3)) * away * away + 1
    far = ((bend * away - 5 * bend) * away + 8 * bend) * away - 4 * bend
    return np.asarray(np.where(away <= 1, close, far), np.float32)


def _cubic(p: Piece, size: int, wanted: int) -> Array:
    """The matrix that takes *size* pixels to *wanted* ones by four neighbours
    (core/kernels/image/resize_bicubic_op.cc): pixels outside count as those at the edge or,
    with the centres of pixels at halves, not at all."""
    halves = bool(p.attr("half_pixel_centers", False))
    places = _places(p, size, wanted)
    first = np.floor(places)
    steps = np.rint((places - first) * np.float32(_STEPS)).astype(np.int64)
    table = _cubic_weights(np.float32(-0.5 if halves else -0.75))
    matrix = np.zeros((wanted, size), np.float32)
    rows = np.arange(wanted)
    for offset, away in (
        (-1, _STEPS + steps),
        (0, steps),
        (1, _STEPS - steps),
        (2, 2 * _STEPS - steps),
    ):
        there = first.astype(np.int64) + offset
        inside = (there >= 0) & (there < size)
        weight = np.where(inside, table[away], 0) if halves else table[away]
        np.add.at(matrix, (rows, np.clip(there, 0, size - 1)), weight.astype(np.float32))
    if halves:
        sums = matrix.sum(axis=1, keepdims=True)
        matrix /= np.where(np.abs(sums) >= 1000 * np.finfo(np.float32).tiny, sums, 1)
    return matrix


def _share(p: Piece, size: int, wanted: int) -> Array:
    """The matrix that takes *size* pixels to the means of what *wanted* ones cover of them
    (core/kernels/image/resize_area_op.cc)."""
    aligned = bool(p.attr("align_corners", False)) and wanted > 1
    above, below = (size - 1, wanted - 1) if aligned else (size, wanted)
    scale = np.float32(above) / np.float32(below)
    matrix = np.zeros((wanted, size), np.float32)
    for row in range(wanted):
        start, end = np.float32(row) * scale, np.float32(row + 1) * scale
        for at in range(int(np.floor(start)), int(np.ceil(end))):
            covered = min(np.float32(at + 1), end) - max(np.float32(at), start)
            matrix[row, min(max(at, 0), size - 1)] += covered / scale
    return matrix


_MATRICES = {"Bilinear": _linear, "Bicubic": _cubic, "Area": _share}
"""What each pixel is made of: the four nearest ones, the sixteen nearest ones, what it covers."""


@ROWS.row(*(f"Resize{how}" for how in _MATRICES), source=IMAGE)
def resize(p: Piece) -> Outputs:
    """Each pixel out of those beside it."""
    matrix = _MATRICES[p.op.type.removeprefix("Resize")]
    rows, columns = (matrix(p, p.shape(0)[1 + at], size) for at, size in enumerate(p.integers(1)))
    return [_by_matrices(p, p.cast(p.name(0), np.float32), rows, columns)]


@ROWS.row("ResizeBilinearGrad", "ResizeBicubicGrad", source=IMAGE)
def resize_grad(p: Piece) -> Outputs:
    """The gradient given back to the pixels that each one was made of."""
    matrix = _MATRICES[p.op.type.removeprefix("Resize").removesuffix("Grad")]
    rows, columns = (matrix(p, p.shape(1)[at], p.shape(0)[at]).T.copy() for at in (1, 2))
    return [p.cast(_by_matrices(p, p.name(0), rows, columns), p.dtype(1))]


@ROWS.row("ResizeNearestNeighbor", source=IMAGE)
def resize_nearest(p: Piece) -> Outputs:
    """Each pixel a copy of the nearest one."""
    high, wide = p.integers(1)
    rows = p.add("Gather", p.name(0), p.const(_nearest(p, p.shape(0)[1], high)), axis=1)
    return [p.add("Gather", rows, p.const(_nearest(p, p.shape(0)[2], wide)), axis=2)]


@ROWS.row("ResizeNearestNeighborGrad", source=IMAGE)
def resize_nearest_grad(p: Piece) -> Outputs:
    """The sum of the gradients of all copies of a pixel."""
    high, wide = p.integers(1)
    matrices = []
    for size, wanted in ((high, p.shape(0)[1]), (wide, p.shape(0)[2])):
        copies = np.zeros((size, wanted), p.dtype(0))
        copies[_nearest(p, size, wanted), np.arange(wanted)] = 1
        matrices.append(copies)
    return [_by_matrices(p, p.name(0), *matrices)]


def _lanczos(radius: int) -> Callable[[Array], Array]:
    def weights(away: Array) -> Array:
        turned = np.pi * np.where(away <= 1e-3, 1, away)
        window = radius * np.sin(turned) * np.sin(turned / radius) / turned**2
        return np.where(away <= 1e-3, 1, np.where(away > radius, 0, window))

    return weights


def _keys(away: Array) -> Array:
    close = (1.5 * away - 2.5) * away * away + 1
    far = ((-0.5 * away + 2.5) * away - 4) * away + 2
    return np.where(away < 1, close, np.where(away < 2, far, 0))


def _mitchell(away: Array) -> Array:
    close = (7 / 6 * away - 2) * away * away + 8 / 9
    far = ((-7 / 18 * away + 2) * away - 10 / 3) * away + 16 / 9
    return np.where(away < 1, close, np.where(away < 2, far, 0))


_KERNELS: Mapping[str, tuple[float, Callable[[Array], Array]]] = {
    **{f"lanczos{radius}": (radius, _lanczos(radius)) for radius in (1, 3, 5)},
    "gaussian": (1.5, lambda away: np.where(away < 1.5, np.exp(-2 * away**2), 0)),
    "box": (1, lambda away: np.where(away < 0.5, 1, np.where(away == 0.5, 0.5, 0))),
    "triangle": (1, lambda away: np.clip(1 - away, 0, None)),
    "keyscubic": (2, _keys),
    "mitchellcubic": (2, _mitchell),
}
"""How far each kernel reaches, and its weights (core/kernels/image/sampling_kernels.h)."""


def _sampled(p: Piece, axis: int, size: int, wanted: int, scale: Array, moved: Array) -> Array:
    """The matrix that takes *size* pixels to *wanted* ones, scaled and moved
    (``ComputeSpansCore`` of core/kernels/image/scale_and_translate_op.cc)."""
    kernel_type = str(p.attr("kernel_type", "lanczos3"))
    if kernel_type not in _KERNELS:
        raise NotTranslatedError(f"{p.op.type} by a kernel {kernel_type!r}")
    reach, kernel = _KERNELS[kernel_type]
    step = np.float32(1) / np.float32(scale[axis])
    wide = max(step, np.float32(1)) if p.attr("antialias", True) else np.float32(1)
    centres = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * step
    centres += -step * np.float32(moved[axis])
    pixels = np.arange(size, dtype=np.float32) + np.float32(0.5)
    away = np.abs(pixels - centres[:, None]) / wide
    matrix = np.where(away <= reach, kernel(away), 0)
    sums = matrix.sum(axis=1, keepdims=True)
    matrix = matrix / np.where(np.abs(sums) >= 1000 * np.finfo(np.float32).tiny, sums, 1)
    inside = (centres >= 0) & (centres <= size)
    return np.asarray(np.where(inside[:, None], matrix, 0), np.float32)


@ROWS.row("ScaleAndTranslate", source=IMAGE)
def scale_and_translate(p: Piece) -> Outputs:
    """Each pixel out of all that a kernel reaches."""
    wanted, scale, moved = p.integers(1), p.value(2), p.value(3)
    high, wide = (
        _sampled(p, axis, p.shape(0)[1 + axis], wanted[axis], scale, moved) for axis in (0, 1)
    )
    return [_by_matrices(p, p.cast(p.name(0), np.float32), high, wide)]


@ROWS.row("ScaleAndTranslateGrad", source=IMAGE)
def scale_and_translate_grad(p: Piece) -> Outputs:
    """The gradient given back to all that a kernel reached."""
    scale, moved = p.value(2), p.value(3)
    high, wide = (
        _sampled(p, axis, p.shape(1)[1 + axis], p.shape(0)[1 + axis], scale, moved)
        for axis in (0, 1)
    )
    return [p.cast(_by_matrices(p, p.name(0), high.T.copy(), wide.T.copy()), p.dtype(1))]
