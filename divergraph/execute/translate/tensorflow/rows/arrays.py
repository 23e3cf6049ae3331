"""Ops on shapes, and ops that only move elements."""

from __future__ import annotations

from typing import Literal

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, MANIP, MATH, ROWS, numpy_type


@ROWS.row("Shape", "ShapeN", "VariableShape", source=ARRAY)
def shape(p: Piece) -> Outputs:
    """The shape of each input."""
    kind = numpy_type(p.attr("out_type", "int32"))
    return [p.const(np.array(p.shape(at), kind)) for at in range(len(p))]


@ROWS.row("Size", source=ARRAY)
def size(p: Piece) -> Outputs:
    """The number of elements."""
    kind = numpy_type(p.attr("out_type", "int32"))
    return [p.const(np.array(np.prod(p.shape(), dtype=np.int64), kind))]


@ROWS.row("Rank", source=ARRAY)
def rank(p: Piece) -> Outputs:
    """The number of axes."""
    return [p.const(np.array(p.rank(), np.int32))]


@ROWS.row("Reshape", source=ARRAY)
def reshape(p: Piece) -> Outputs:
    """Another shape of as many elements; one -1 is what is left."""
    wanted = list(p.integers(1))
    if -1 in wanted:
        rest = int(np.prod([dim for dim in wanted if dim != -1], dtype=np.int64))
        elements = int(np.prod(p.shape(), dtype=np.int64))
        wanted[wanted.index(-1)] = elements // rest if rest else 0
    return [p.reshape(p.name(0), wanted)]


@ROWS.row("Squeeze", source=ARRAY)
def squeeze(p: Piece) -> Outputs:
    """Without the axes of one element, or without those listed."""
    listed = tuple(p.attr("squeeze_dims", ()) or p.attr("axis", ()))
    dropped = {axis % p.rank() for axis in listed}
    dims = [n for at, n in enumerate(p.shape()) if at not in dropped and (listed or n != 1)]
    return [p.reshape(p.name(0), dims)]


@ROWS.row("ExpandDims", source=ARRAY)
def expand_dims(p: Piece) -> Outputs:
    """With an axis of one element more."""
    (axis,) = p.integers(1)
    wanted = list(p.shape())
    wanted.insert(axis if axis >= 0 else axis + p.rank() + 1, 1)
    return [p.reshape(p.name(0), wanted)]


@ROWS.row("Transpose", source=ARRAY)
def transpose(p: Piece) -> Outputs:
    """The axes in another order."""
    return [p.transpose(p.name(0), *p.integers(1))]


@ROWS.row("InvertPermutation", source=ARRAY)
def invert_permutation(p: Piece) -> Outputs:
    """The order that undoes an order."""
    return [p.const(np.argsort(p.value(0)).astype(p.dtype()))]


@ROWS.row("Pack", source=ARRAY)
def pack(p: Piece) -> Outputs:
    """The inputs side by side along a new axis."""
    axis = int(p.attr("axis", 0))
    rank = p.rank() + 1
    at = p.ints(axis % rank)
    return [p.add("Concat", *(p.add("Unsqueeze", name, at) for name in p.names), axis=axis % rank)]


@ROWS.row("Unpack", source=ARRAY)
def unpack(p: Piece) -> Outputs:
    """What lies side by side along an axis, each by itself."""
    axis = int(p.attr("axis", 0)) % p.rank()
    count = p.shape()[axis]
    if not count:
        return []
    parts = p.add_many("Split", count, p.name(), p.ints(*[1] * count), axis=axis)
    return [p.add("Squeeze", part, p.ints(axis)) for part in parts]


@ROWS.row("ConcatV2", "Concat", source=ARRAY)
def concat(p: Piece) -> Outputs:
    """The inputs one behind the other along an axis."""
    places = list(range(len(p)))
    at = places.pop(-1 if p.op.type == "ConcatV2" else 0)
    (axis,) = p.integers(at)
    # TensorFlow takes lists of no elements of any rank.
    names = [p.name(place) for place in places if p.shape(place) != (0,)] or [p.name(places[0])]
    return [p.add("Concat", *names, axis=axis)]


@ROWS.row("ConcatOffset", source=ARRAY)
def concat_offset(p: Piece) -> Outputs:
    """Where each of some shapes begins if they are put one behind the other."""
    (axis,) = p.integers(0)
    shapes = [p.value(at) for at in range(1, len(p))]
    begin, offsets = 0, []
    for dims in shapes:
        offset = np.zeros_like(dims)
        offset[axis] = begin
        begin += int(dims[axis])
        offsets.append(p.const(offset))
    return offsets


@ROWS.row("Split", source=ARRAY)
def split(p: Piece) -> Outputs:
    """Equal parts along an axis."""
    count = int(p.attr("num_split"))
    (axis,) = p.integers(0)
    sizes = p.ints(*[p.shape(1)[axis] // count] * count)
    return p.add_many("Split", count, p.name(1), sizes, axis=axis)


@ROWS.row("SplitV", source=ARRAY)
def split_v(p: Piece) -> Outputs:
    """Parts of the sizes given along an axis; one -1 is what is left."""
    sizes, (axis,) = list(p.integers(1)), p.integers(2)
    if -1 in sizes:
        sizes[sizes.index(-1)] = p.shape(0)[axis] - sum(length for length in sizes if length != -1)
    return p.add_many("Split", len(sizes), p.name(0), p.ints(*sizes), axis=axis)


@ROWS.row("Slice", source=ARRAY)
def slice_(p: Piece) -> Outputs:
    """A block from a place on, of a size; -1 is all that is left."""
    begin, sizes = p.integers(1), p.integers(2)
    ends = [
        dim if size == -1 else first + size
        for first, size, dim in zip(begin, sizes, p.shape(), strict=True)
    ]
    return [p.add("Slice", p.name(0), p.ints(*begin), p.ints(*ends), p.ints(*range(len(begin))))]


@ROWS.row("Tile", source=ARRAY)
def tile(p: Piece) -> Outputs:
    """The input so often along each axis."""
    return [p.add("Tile", p.name(0), p.ints(*p.integers(1)))]


@ROWS.row("Fill", source=ARRAY)
def fill(p: Piece) -> Outputs:
    """One value in a whole shape."""
    return [p.add("Expand", p.name(1), p.ints(*p.integers(0)))]


@ROWS.row("BroadcastTo", source=ARRAY)
def broadcast_to(p: Piece) -> Outputs:
    """The input as often as makes a shape."""
    return [p.add("Expand", p.name(0), p.ints(*p.integers(1)))]


@ROWS.row("BroadcastArgs", source=ARRAY)
def broadcast_args(p: Piece) -> Outputs:
    """The shape that two shapes have together."""
    shapes = np.broadcast_shapes(p.integers(0), p.integers(1))
    return [p.const(np.array(shapes, p.dtype()))]


@ROWS.row("BroadcastGradientArgs", source=ARRAY)
def broadcast_gradient_args(p: Piece) -> Outputs:
    """The axes along which the gradients of two operands are summed: those they were repeated
    along, those of one element on both sides among them."""
    one, right = p.integers(0), p.integers(1)
    rank = max(len(one), len(right))
    sides = [(1,) * (rank - len(dims)) + dims for dims in (one, right)]
    # Equal shapes need no sum at all; of others, axes of one element count on both sides.
    apart_at_all = one != right
    gradient_axes = []
    for own, other in (sides, sides[::-1]):
        axes = [
            at
            for at, (mine, its) in enumerate(zip(own, other, strict=True))
            if mine == 1 and (apart_at_all or its != 1)
        ]
        gradient_axes.append(p.const(np.array(axes, p.dtype())))
    return gradient_axes


@ROWS.row("Range", source=MATH)
def range_(p: Piece) -> Outputs:
    """Numbers from one up to another, so far apart."""
    start, limit, delta = (p.value(at).item() for at in range(3))
    return [p.const(np.arange(start, limit, delta, dtype=p.dtype()))]


@ROWS.row("LinSpace", source=MATH)
def lin_space(p: Piece) -> Outputs:
    """So many numbers from one to another, equally far apart."""
    first, last, (count,) = p.value(0).item(), p.value(1).item(), p.integers(2)
    step = (last - first) / (count - 1) if count > 1 else 0.0
    numbers = first + step * np.arange(count)
    numbers[-1:] = last if count > 1 else first
    return [p.const(numbers.astype(p.dtype()))]


@ROWS.row("Pad", "PadV2", "MirrorPad", source=ARRAY)
def pad(p: Piece) -> Outputs:
    """More elements before and behind along each axis: zeros, a value, or mirrored ones."""
    widths = np.array(p.value(1), np.int64).reshape(-1, 2)
    before_and_behind = p.const(np.concatenate([widths[:, 0], widths[:, 1]]))
    if p.op.type == "MirrorPad":
        if p.attr("mode") == "REFLECT":
            return [p.add("Pad", p.name(0), before_and_behind, mode="reflect")]
        return [_symmetric(p, widths)]
    value = p.name(2) if p.has(2) else None
    return [p.add("Pad", p.name(0), before_and_behind, value, mode="constant")]


def _symmetric(p: Piece, widths: np.ndarray) -> Expr:
    """Mirrored with the edge itself, which ONNX has no mode for: gathered axis by axis."""
    padded = p.name(0)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            size = p.shape()[axis]
            places = np.pad(np.arange(size), (int(before), int(after)), mode="symmetric")
            padded = p.add("Gather", padded, p.const(places), axis=axis)
    return padded


@ROWS.row("MirrorPadGrad", source=ARRAY)
def mirror_pad_grad(p: Piece) -> Outputs:
    """What padding had mirrored, added to what it was mirrored from."""
    widths = np.array(p.value(1), np.int64).reshape(-1, 2)
    shape = [size - int(width.sum()) for size, width in zip(p.shape(0), widths, strict=True)]
    count = int(np.prod(shape, dtype=np.int64))
    mode: Literal["reflect", "symmetric"]
    mode = "reflect" if p.attr("mode") == "REFLECT" else "symmetric"
    places = np.pad(np.arange(count).reshape(shape), widths, mode=mode)
    zeros, flat = p.const(np.zeros(count, p.dtype(0))), p.reshape(p.name(0), (places.size,))
    put = p.add(
        "ScatterElements", zeros, p.const(places.ravel().copy()), flat, axis=0, reduction="add"
    )
    return [p.reshape(put, shape)]


@ROWS.row("Roll", source=MANIP)
def roll(p: Piece) -> Outputs:
    """The elements moved along some axes, those at the end to the front."""
    rolled = p.name(0)
    for step, axis in zip(p.integers(1), p.integers(2), strict=True):
        places = np.roll(np.arange(p.shape(0)[axis], dtype=np.int64), step)
        rolled = p.add("Gather", rolled, p.const(places), axis=axis)
    return [rolled]


@ROWS.row("ReverseSequence", source=ARRAY)
def reverse_sequence(p: Piece) -> Outputs:
    """So many first elements of each entry of the batch from the last to the first."""
    along, batch = int(p.attr("seq_dim")) % p.rank(0), int(p.attr("batch_dim", 0)) % p.rank(0)
    order = [along, batch, *(at for at in range(p.rank(0)) if at not in (along, batch))]
    first = p.transpose(p.name(0), *order)
    turned = p.add("ReverseSequence", first, p.cast(p.name(1), np.int64), time_axis=0, batch_axis=1)
    return [p.transpose(turned, *(int(at) for at in np.argsort(order)))]


@ROWS.row("Empty", source=ARRAY)
def empty(p: Piece) -> Outputs:
    """Room for a tensor: zeros."""
    return [p.const(np.zeros(p.integers(0), numpy_type(p.attr("dtype"))))]


@ROWS.row("Cumprod", source=MATH)
def cumulative_product(p: Piece) -> Outputs:
    """Products of all elements up to each one."""
    axis = p.integers(1)[0] % p.rank(0)
    count = p.shape(0)[axis]
    if not count:
        return [p.name(0)]
    parts = list(p.add_many("Split", count, p.name(0), p.ints(*[1] * count), axis=axis))
    if p.attr("reverse", False):
        parts.reverse()
    shape = [1 if at == axis else size for at, size in enumerate(p.shape(0))]
    products = [p.const(np.ones(shape, p.dtype(0)))]
    for part in parts:
        products.append(products[-1] * part)
    products = products[:-1] if p.attr("exclusive", False) else products[1:]
    if p.attr("reverse", False):
        products.reverse()
    return [p.add("Concat", *products, axis=axis)]


@ROWS.row("ReverseV2", "Reverse", source=ARRAY)
def reverse(p: Piece) -> Outputs:
    """The elements along some axes from the last to the first."""
    if p.op.type == "Reverse":
        axes = [axis for axis, turned in enumerate(p.value(1)) if turned]
    else:
        axes = [axis % p.rank() for axis in p.integers(1)]
    count, lowest = len(axes), np.iinfo(np.int64).min
    if not axes:
        return [p.name(0)]
    ones, ends = p.ints(*[-1] * count), p.ints(*[lowest] * count)
    return [p.add("Slice", p.name(0), ones, ends, p.ints(*axes), ones)]


@ROWS.row("SpaceToDepth", "DepthToSpace", source=ARRAY)
def space_and_depth(p: Piece) -> Outputs:
    """Blocks of pixels as channels, or back."""
    if p.attr("data_format", "NHWC") != "NHWC":
        raise NotTranslatedError(f"{p.op.type} of {p.attr('data_format')}")
    block = int(p.attr("block_size"))
    n, h, w, c = p.shape()
    if p.op.type == "SpaceToDepth":
        blocks_apart = p.reshape(p.name(), (n, h // block, block, w // block, block, c))
        moved = p.transpose(blocks_apart, 0, 1, 3, 2, 4, 5)
        return [p.reshape(moved, (n, h // block, w // block, block * block * c))]
    depth = c // (block * block)
    blocks_apart = p.reshape(p.name(), (n, h, w, block, block, depth))
    moved = p.transpose(blocks_apart, 0, 1, 3, 2, 4, 5)
    return [p.reshape(moved, (n, h * block, w * block, depth))]


@ROWS.row("SpaceToBatchND", source=ARRAY)
def space_to_batch(p: Piece) -> Outputs:
    """Padded, and blocks of each axis as more of the batch."""
    blocks = p.integers(1)
    pads = np.zeros((p.rank(), 2), np.int64)
    pads[1 : 1 + len(blocks)] = p.value(2)
    padded = p.add("Pad", p.name(0), p.const(pads.T.ravel().copy()))
    sizes = [size + int(pads[at].sum()) for at, size in enumerate(p.shape())]
    count = len(blocks)
    split_dims, inner = [sizes[0]], []
    for size, block in zip(sizes[1 : 1 + count], blocks, strict=True):
        split_dims += [size // block, block]
        inner.append(size // block)
    rest = sizes[1 + count :]
    order = [2 * at + 2 for at in range(count)] + [0] + [2 * at + 1 for at in range(count)]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    moved = p.transpose(p.reshape(padded, (*split_dims, *rest)), *order)
    batches = sizes[0] * int(np.prod(blocks, dtype=np.int64))
    return [p.reshape(moved, (batches, *inner, *rest))]


@ROWS.row("BatchToSpaceND", source=ARRAY)
def batch_to_space(p: Piece) -> Outputs:
    """The batch as blocks of each axis, cut at the edges."""
    blocks, crops = p.integers(1), np.array(p.value(2), np.int64)
    count = len(blocks)
    sizes = p.shape()
    batch = sizes[0] // int(np.prod(blocks, dtype=np.int64))
    blocks_apart = p.reshape(p.name(0), (*blocks, batch, *sizes[1:]))
    order = [count]
    for at in range(count):
        order += [count + 1 + at, at]
    order += range(2 * count + 1, 2 * count + 1 + len(sizes) - 1 - count)
    full_sizes = [size * block for size, block in zip(sizes[1:], blocks, strict=False)]
    joined = p.reshape(p.transpose(blocks_apart, *order), (batch, *full_sizes, *sizes[1 + count :]))
    ends = [size - int(crop) for size, crop in zip(full_sizes, crops[:, 1], strict=True)]
    begins = [int(crop) for crop in crops[:, 0]]
    axes = p.ints(*range(1, 1 + count))
    return [p.add("Slice", joined, p.ints(*begins), p.ints(*ends), axes)]
