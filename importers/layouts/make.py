"""Device layouts made: the way back, padding with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from importers.layouts.tables import (
    BLOCKED,
    C04,
    MATRIX,
    N0,
    PLAIN,
    Array,
    LayoutError,
    UnsupportedLayoutError,
    grouping,
    pack_slices,
    show,
)


def from_layout(
    array: Array, source: str, stored: str, *, block: int | None = None, groups: int = 1
) -> Array:
    """*array*, which lies as *source* (NCHW, NHWC, ND, ...), in the device layout *stored*.

    ``block`` is C0, by default 16, 32 for types of one byte and 4 for the C04 layouts.
    ``groups`` packs the weights of a grouped convolution into FRACTAL_Z.

    Raises:
        LayoutError: no such conversion.
    """
    if block is None:
        block = C04 if stored == "NC1HWC0_C04" else 32 if array.dtype.itemsize == 1 else 16
    try:
        return np.ascontiguousarray(_make(array, source, stored, block, max(groups, 1)))
    except LayoutError as error:
        what = f"{source} {show(array.shape)} cannot become {stored}: {error}"
        raise type(error)(what) from None


def _make(array: Array, source: str, stored: str, block: int, groups: int) -> Array:
    if source == stored:
        return array
    if stored in MATRIX:
        return _matrix(array, MATRIX[stored], block)
    axes = PLAIN.get(source)
    if axes is None or array.ndim != len(axes):
        raise LayoutError(f"{source} with {array.ndim} axes is no start for it")
    if stored in PLAIN:
        return _blocked(array, axes, tuple(PLAIN[stored]), block)
    if stored == "FRACTAL_Z_C04":
        return _z_c04(_blocked(array, axes, tuple("NHWC"), block), block)
    if stored == "C1HWNCoC0":
        return _depthwise(_blocked(array, axes, ("C+", "H", "W", "N", "C"), block))
    if stored not in BLOCKED:
        raise UnsupportedLayoutError("this layout is not supported")
    if groups > 1 and stored == "FRACTAL_Z":
        return _grouped(_blocked(array, axes, tuple("NCHW"), block), block, groups)
    made = _blocked(array, axes, BLOCKED[stored], block)
    return _folded(made) if stored.startswith("FRACTAL_Z") else made


def _folded(made: Array) -> Array:
    """All axes before the last three as one: how FRACTAL_Z is stored."""
    return made.reshape(prod(made.shape[:-3]), *made.shape[-3:])


def _blocked(array: Array, axes: str, labels: Sequence[str], block: int) -> Array:
    """Pad and split the axes that *labels* stores in blocks, then order them so."""
    letters = [label for label in labels if not label.endswith("+")]
    if set(letters) != set(axes):
        raise LayoutError(f"the axes {axes} are not {''.join(letters)}")
    split: list[str] = []
    shape: list[int] = []
    padding: list[tuple[int, int]] = []
    for letter, size in zip(axes, array.shape, strict=True):
        if letter + "+" not in labels:
            split.append(letter)
            shape.append(size)
            padding.append((0, 0))
            continue
        inner = N0 if letter in "NM" else block
        blocks = -(-size // inner)
        split += [letter + "+", letter]
        shape += [blocks, inner]
        padding.append((0, blocks * inner - size))
    padded = np.pad(array, padding) if any(after for _, after in padding) else array
    return padded.reshape(shape).transpose([split.index(label) for label in labels])


def _matrix(array: Array, labels: Sequence[str], block: int) -> Array:
    matrix = array.reshape((1,) * (2 - array.ndim) + array.shape)
    lead = matrix.shape[:-2]
    flat = matrix.reshape(prod(lead), *matrix.shape[-2:])
    made = _blocked(flat, "BMK", ("B", *labels), block)
    return made.reshape(*lead, *made.shape[1:])


def _z_c04(nhwc: Array, block: int) -> Array:
    filters, height, width, channels = nhwc.shape
    if channels > C04:
        raise LayoutError(f"it holds {C04} channels at most, not {channels}")
    padded = np.pad(nhwc, [(0, 0), (0, 0), (0, 0), (0, C04 - channels)])
    rows = padded.reshape(filters, height * width * C04)
    return _blocked(rows, "NC", ("C+", "N+", "N", "C"), block)


def _depthwise(blocks: Array) -> Array:
    size = blocks.shape[-1]
    made = np.zeros((*blocks.shape, size), blocks.dtype)
    place = np.arange(size)
    made[..., place, place] = blocks
    return made


def _grouped(nchw: Array, block: int, groups: int) -> Array:
    filters, channels, height, width = nchw.shape
    packing = grouping(channels, filters, block, groups)
    whole = np.zeros(
        (packing.packs, packing.n_blocks * N0, packing.c_blocks * block, height, width),
        nchw.dtype,
    )
    for group in range(groups):
        pack, c_rows, n_rows, rows = pack_slices(packing, group)
        whole[pack, n_rows, c_rows] = nchw[rows]
    packs = [_blocked(pack, "NCHW", BLOCKED["FRACTAL_Z"], block) for pack in whole]
    return _folded(np.stack(packs))
