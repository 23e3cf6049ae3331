"""Device layouts undone, and made: the way back, padding with zeros.

Undoing a layout is one transposition, one reshape that joins the blocks of each axis,
and one cut that drops the padding. Views are kept where numpy can; a copy is made where
blocks are joined. Formulas follow the format transfers of the open-sourced GE.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np

from importers.layouts.tables import (
    BLOCKED,
    C04,
    MATRIX,
    N0,
    ND,
    PLAIN,
    Array,
    Dims,
    LayoutError,
    UnsupportedLayoutError,
    grouping,
    pack_slices,
    show,
)


def to_layout(
    array: Array,
    stored: str,
    wanted: str,
    shape: Dims | None = None,
    *,
    groups: int = 1,
) -> Array:
    """*array*, which lies as *stored*, in the layout *wanted* and cut to *shape*.

    *wanted* is a layout without blocks (NCHW, NHWC, HWCN, ND, NCDHW, ...). Without
    *shape* the padding stays; FRACTAL_Z layouts need it. A *shape* of fewer axes than
    *wanted* leaves out axes of size 1. ``groups`` is that of grouped convolution
    weights in FRACTAL_Z. The result is a view where possible.

    Raises:
        LayoutError: no such conversion, or *array* cannot hold *shape* in it.
    """
    try:
        return _undo(array, stored, wanted, shape, max(groups, 1))
    except LayoutError as error:
        target = "" if shape is None else f" of shape {show(shape)}"
        what = f"{stored} {show(array.shape)} cannot become {wanted}{target}: {error}"
        raise type(error)(what) from None


def _undo(array: Array, stored: str, wanted: str, shape: Dims | None, groups: int) -> Array:
    if not array.size and stored not in PLAIN and stored != ND:
        if shape is None or 0 not in shape:
            raise LayoutError("it is empty")
        return array.reshape(shape)
    if stored in MATRIX:
        return _from_matrix(array, stored, shape)
    if stored in PLAIN and wanted in PLAIN and array.ndim == len(PLAIN[stored]):
        axes = PLAIN[stored]
        if stored == wanted:
            return _cut(array, shape)
        return _reduced(_joined(array, tuple(axes), _axes_of(wanted, axes)), wanted, shape, 1)
    if stored in PLAIN or stored == ND:
        return _cut(array, shape)
    if wanted == ND and shape is not None:
        wanted = _nd_stands_for(stored, shape)
    axes = _axes_of(wanted)
    if stored == "FRACTAL_Z_C04":
        return _from_z_c04(array, axes, _sizes(axes, shape))
    if stored == "C1HWNCoC0":
        return _from_depthwise(array, wanted, axes, shape)
    if stored in ("FRACTAL_Z", "FRACTAL_Z_3D", "FRACTAL_Z_G"):
        return _from_fractal_z(array, stored, axes, shape, groups)
    if stored not in BLOCKED:
        raise UnsupportedLayoutError("this layout is not supported")
    labels = BLOCKED[stored]
    if array.ndim != len(labels):
        raise LayoutError(f"it should have {len(labels)} axes, not {array.ndim}")
    joined = _joined(array, labels, _axes_of(wanted, _letters(labels)))
    return _reduced(joined, wanted, shape, array.shape[-1])


def _axes_of(layout: str, among: Sequence[str] | None = None) -> str:
    axes = PLAIN.get(layout)
    if axes is None:
        raise LayoutError(f"{layout} is not a layout without blocks")
    if among is not None and set(axes) != set(among):
        raise LayoutError(f"the axes {''.join(among)} are not those of {layout}")
    return axes


def _letters(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if not label.endswith("+")]


def _nd_stands_for(stored: str, shape: Dims) -> str:
    """What ND means for a tensor stored in blocks: the usual order of its axes."""
    if stored in ("NDC1HWC0", "FRACTAL_Z_3D"):
        return "NCDHW" if stored == "NDC1HWC0" else "DHWCN"
    if stored.startswith("FRACTAL_Z") or stored == "C1HWNCoC0":
        return "HWCN" if len(shape) == 2 else "NCHW"
    return "NCHW"


def _joined(array: Array, labels: Sequence[str], axes: str) -> Array:
    """Transpose to *axes* and join the blocks of each axis."""
    order: list[int] = []
    shape: list[int] = []
    for letter in axes:
        parts = [index for index, label in enumerate(labels) if label in (letter, letter + "+")]
        parts.sort(key=lambda index: not labels[index].endswith("+"))
        order += parts
        shape.append(prod(array.shape[index] for index in parts))
    return array.transpose(order).reshape(shape)


def _cut(array: Array, shape: Dims | None) -> Array:
    """The leading part of *array* of *shape*; a view."""
    if shape is None or array.shape == shape:
        return array
    if len(shape) == array.ndim and all(
        want <= have for want, have in zip(shape, array.shape, strict=True)
    ):
        return array[tuple(slice(0, want) for want in shape)]
    if prod(shape) == array.size:
        return array.reshape(shape)
    raise LayoutError(f"it unfolds to {show(array.shape)}")


def _reduced(array: Array, wanted: str, shape: Dims | None, block: int) -> Array:
    """Cut an unfolded array to *shape*, which may leave out axes of size 1.

    Only C can be padded, by less than one block.
    """
    if shape is None:
        return array
    axes = PLAIN[wanted]
    fewer = len(axes) - len(shape)
    if fewer < 0:
        return _cut(array, shape)
    for left_out in combinations(range(len(axes)), fewer):
        dims = iter(shape)
        full = tuple(1 if index in left_out else next(dims) for index in range(len(axes)))
        if _holds(array.shape, full, axes, block):
            return _cut(array, full).reshape(shape)
    raise LayoutError(f"it unfolds to {show(array.shape)}")


def _holds(have: Dims, want: Dims, axes: str, block: int) -> bool:
    return all(
        wanted == size or (axis == "C" and size - block < wanted < size)
        for axis, size, wanted in zip(axes, have, want, strict=True)
    )


def _sizes(axes: str, shape: Dims | None) -> dict[str, int]:
    """The sizes of the axes by letter; a matrix is a 1x1 kernel."""
    if shape is None:
        raise LayoutError("the original shape is not known")
    if len(shape) == 2:
        axes_of_shape = [axis for axis in axes if axis in "CN"]
        return dict.fromkeys(axes, 1) | dict(zip(axes_of_shape, shape, strict=True))
    if len(shape) != len(axes):
        raise LayoutError(f"a shape of {len(axes)} axes is needed")
    return dict(zip(axes, shape, strict=True))


def _from_matrix(array: Array, stored: str, shape: Dims | None) -> Array:
    labels = MATRIX[stored]
    lead = array.ndim - len(labels)
    if lead < 0:
        raise LayoutError(f"it should have at least {len(labels)} axes, not {array.ndim}")
    flat = array.reshape(prod(array.shape[:lead]), *array.shape[lead:])
    matrices = _joined(flat, ("B", *labels), "BMK")
    if shape is None:
        return matrices.reshape(*array.shape[:lead], *matrices.shape[1:])
    rows, columns = (1, *shape)[-2:] if shape else (1, 1)
    count = prod(shape[:-2])
    padded_rows, padded_columns = matrices.shape[1:]
    if count != matrices.shape[0] and padded_rows - N0 < prod(shape[:-1]) <= padded_rows:
        rows, count = prod(shape[:-1]), 1  # leading axes were folded into the rows
    block = array.shape[-1]
    fits = (
        count == matrices.shape[0]
        and padded_rows - array.shape[-2] < rows <= padded_rows
        and padded_columns - block < columns <= padded_columns
    )
    if not fits and 0 not in shape:
        raise LayoutError(f"it unfolds to {show(matrices.shape)}")
    return matrices[:count, :rows, :columns].reshape(shape)


def _from_fractal_z(array: Array, stored: str, axes: str, shape: Dims | None, groups: int) -> Array:
    labels = BLOCKED["FRACTAL_Z_3D" if stored == "FRACTAL_Z_3D" else "FRACTAL_Z"]
    _axes_of("".join(axes), _letters(labels))
    sizes = _sizes(axes, shape)
    if shape is None:
        raise LayoutError("the original shape is not known")
    if array.ndim not in (4, len(labels)):
        raise LayoutError(f"it should have 4 axes, not {array.ndim}")
    if groups > 1:
        return _from_grouped(array, axes, sizes, groups).reshape(shape)
    block = array.shape[-1]
    outer = tuple(sizes[axis] for axis in _letters(labels) if axis in "DHW")
    blocks = -(-sizes["C"] // block)
    depth, rest = (outer[:1], outer[1:]) if "D" in labels else ((), outer)
    stored_shape = (*depth, blocks, *rest, *array.shape[-3:])
    if prod(stored_shape) != array.size:
        raise LayoutError(f"for that shape it should be {show(stored_shape)} before folding")
    full = _joined(array.reshape(stored_shape), labels, axes)
    return _cut(full, tuple(sizes[axis] for axis in axes)).reshape(shape)


def _from_grouped(array: Array, axes: str, sizes: dict[str, int], groups: int) -> Array:
    if "D" in sizes:
        raise LayoutError("grouped weights with three space axes are not supported")
    block = array.shape[-1]
    packing = grouping(sizes["C"], sizes["N"], block, groups)
    height, width = sizes["H"], sizes["W"]
    packed = (packing.packs, packing.c_blocks, height, width, packing.n_blocks, N0, block)
    if prod(packed) != array.size:
        raise LayoutError(f"for that shape and {groups} groups it should be {show(packed)}")
    nchw = np.empty((sizes["N"], sizes["C"], height, width), array.dtype)
    packs = array.reshape(packed)
    for group in range(groups):
        pack, c_rows, n_rows, rows = pack_slices(packing, group)
        unpacked = _joined(packs[pack], BLOCKED["FRACTAL_Z"], "NCHW")
        nchw[rows] = unpacked[n_rows, c_rows]
    return nchw.transpose(["NCHW".index(axis) for axis in axes])


def _from_z_c04(array: Array, axes: str, sizes: dict[str, int]) -> Array:
    if array.ndim != 4 or "D" in sizes:
        raise LayoutError("it should have 4 axes and two space axes")
    kernel = sizes["H"] * sizes["W"] * C04
    rows = array.transpose(1, 2, 0, 3).reshape(
        array.shape[1] * array.shape[2], array.shape[0] * array.shape[3]
    )
    if rows.shape[0] < sizes["N"] or rows.shape[1] < kernel or sizes["C"] > C04:
        raise LayoutError(f"it unfolds to {show(rows.shape)}")
    nhwc = rows[: sizes["N"], :kernel].reshape(sizes["N"], sizes["H"], sizes["W"], C04)
    return nhwc[..., : sizes["C"]].transpose(["NHWC".index(axis) for axis in axes])


def _from_depthwise(array: Array, wanted: str, axes: str, shape: Dims | None) -> Array:
    """Weights of depthwise convolution: C and its copy Co are one axis."""
    if array.ndim != 6 or array.shape[-1] != array.shape[-2]:
        raise LayoutError("it should have 6 axes, the last two of the same size")
    diagonal = np.diagonal(array, axis1=4, axis2=5)
    labels = ("C+", "H", "W", "N", "C")
    joined = _joined(diagonal, labels, _axes_of(wanted, _letters(labels)))
    return _reduced(joined, "".join(axes), shape, array.shape[-1])


def from_layout(array: Array, source: str, stored: str, *, groups: int = 1) -> Array:
    """*array*, which lies as *source* (NCHW, NHWC, ND, ...), in the device layout *stored*.

    C0 is 16, but 32 for types of one byte and 4 for the C04 layouts. ``groups`` packs the weights
    of a grouped convolution into FRACTAL_Z.

    Raises:
        LayoutError: no such conversion.
    """
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
        raise LayoutError(f"{source} with {array.ndim} axes is not a start for it")
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
    blocked = _blocked(array, axes, BLOCKED[stored], block)
    return _folded(blocked) if stored.startswith("FRACTAL_Z") else blocked


def _folded(blocked: Array) -> Array:
    """All axes before the last three as one: how FRACTAL_Z is stored."""
    return blocked.reshape(prod(blocked.shape[:-3]), *blocked.shape[-3:])


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
    blocked = _blocked(flat, "BMK", ("B", *labels), block)
    return blocked.reshape(*lead, *blocked.shape[1:])


def _z_c04(nhwc: Array, block: int) -> Array:
    filters, height, width, channels = nhwc.shape
    if channels > C04:
        raise LayoutError(f"it holds {C04} channels at most, not {channels}")
    padded = np.pad(nhwc, [(0, 0), (0, 0), (0, 0), (0, C04 - channels)])
    rows = padded.reshape(filters, height * width * C04)
    return _blocked(rows, "NC", ("C+", "N+", "N", "C"), block)


def _depthwise(blocks: Array) -> Array:
    size = blocks.shape[-1]
    padded = np.zeros((*blocks.shape, size), blocks.dtype)
    place = np.arange(size)
    padded[..., place, place] = blocks
    return padded


def _grouped(nchw: Array, block: int, groups: int) -> Array:
    filters, channels, height, width = nchw.shape
    packing = grouping(channels, filters, block, groups)
    padded = np.zeros(
        (packing.packs, packing.n_blocks * N0, packing.c_blocks * block, height, width),
        nchw.dtype,
    )
    for group in range(groups):
        pack, c_rows, n_rows, rows = pack_slices(packing, group)
        padded[pack, n_rows, c_rows] = nchw[rows]
    packs = [_blocked(pack, "NCHW", BLOCKED["FRACTAL_Z"], block) for pack in padded]
    return _folded(np.stack(packs))
