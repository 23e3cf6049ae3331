"""Ops that shape, join, make and fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, partner, seed_of, shape_of


@case("Reshape", "Squeeze", "ExpandDims", "Transpose")
def _shapes(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    x = feed(numbers(shape, seed_of(draw)))
    order = draw(st.permutations(range(len(shape))))
    ones = [at for at, size in enumerate(shape) if size == 1]
    found = [
        ops.Reshape(tensor=x, shape=np.array([-1, shape[-1]], np.int32)),
        ops.ExpandDims(input=x, axis=np.int32(draw(st.integers(-len(shape) - 1, len(shape))))),
        ops.Transpose(x=x, perm=np.array(order, np.int32)),
        ops.InvertPermutation(x=np.array(order, np.int32)),
        ops.Squeeze(input=x),
        ops.ShapeN(input=[x, x]),
    ]
    return [*found, ops.Squeeze(input=x, axis=ones[:1])] if ones else found


@case("Pack", "Unpack", "ConcatV2", "Split", "SplitV", "Concat", "ConcatOffset")
def _joined(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x, y = feed(numbers(shape, seed_of(draw))), feed(numbers(shape, seed_of(draw)))
    axis = draw(st.integers(0, len(shape) - 1))
    packed = ops.Pack(values=[x, y], axis=draw(st.integers(-len(shape) - 1, len(shape))))
    joined = ops.ConcatV2(values=[x, y], axis=np.int32(axis))
    return [
        packed,
        joined,
        ops.Concat(concat_dim=np.int32(axis), values=[x, y]),
        ops.Split(axis=np.int32(axis), value=joined, num_split=2),
        ops.SplitV(
            value=joined,
            size_splits=np.array([shape[axis] - 1, -1], np.int32),
            axis=np.int32(axis),
            num_split=2,
        ),
        ops.Unpack(value=x, num=shape[axis], axis=axis),
        ops.ConcatOffset(concat_dim=np.int32(axis), shape=[np.array(shape, np.int32)] * 2),
    ]


@case("Tile", "Fill", "BroadcastTo", "Range", "LinSpace", "OneHot", "BroadcastGradientArgs")
def _made(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x = feed(numbers(shape, seed_of(draw)))
    other = partner(draw, shape)
    times = np.array([draw(st.integers(1, 3)) for _ in shape], np.int32)
    ids = feed(np.random.default_rng(seed_of(draw)).integers(-1, 4, shape).astype(np.int32))
    args = ops.BroadcastGradientArgs(
        s0=np.array(shape, np.int32), s1=np.array(other, np.int32).reshape(-1)
    )
    return [
        ops.Tile(input=x, multiples=times),
        ops.Fill(dims=np.array(shape, np.int32), value=np.float32(0.5)),
        ops.BroadcastTo(input=x, shape=np.array((2, *shape), np.int32)),
        ops.Range(start=np.int32(1), limit=np.int32(9), delta=np.int32(draw(SIZES))),
        ops.LinSpace(start=np.float32(-1), stop=np.float32(2), num=np.int32(draw(SIZES))),
        ops.OneHot(
            indices=ids,
            depth=np.int32(3),
            on_value=np.float32(1),
            off_value=np.float32(-1),
            axis=draw(st.integers(-1, len(shape))),
        ),
        *args,
        ops.BroadcastArgs(s0=np.array(shape, np.int32), s1=np.array(other, np.int32).reshape(-1)),
    ]


@case("Pad", "PadV2", "MirrorPad", "ReverseV2")
def _padded(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = tuple(draw(st.integers(2, 4)) for _ in range(draw(st.integers(1, 3))))
    x = feed(numbers(shape, seed_of(draw)))
    widths = np.array([[draw(st.integers(0, 1)) for _ in "ab"] for _ in shape], np.int32)
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    return [
        ops.Pad(input=x, paddings=widths),
        ops.PadV2(input=x, paddings=widths, constant_values=np.float32(2)),
        ops.MirrorPad(input=x, paddings=widths, mode="REFLECT"),
        ops.MirrorPad(input=x, paddings=widths, mode="SYMMETRIC"),
        ops.ReverseV2(tensor=x, axis=np.array(axes, np.int32)),
    ]


@case("SpaceToDepth", "DepthToSpace", "SpaceToBatchND", "BatchToSpaceND")
def _blocks(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    n, h, w, c = (draw(st.integers(1, 3)) for _ in range(4))
    deep = ops.SpaceToDepth(input=feed(numbers((n, 2 * h, 2 * w, c), 3)), block_size=2)
    pads = np.array([[1, 1], [0, 2]], np.int32)
    block = np.array([2, 2], np.int32)
    batch = ops.SpaceToBatchND(
        input=feed(numbers((n, 2 * h, 2 * w, c), 4)), block_shape=block, paddings=pads
    )
    return [
        deep,
        ops.DepthToSpace(input=deep, block_size=2),
        batch,
        ops.BatchToSpaceND(input=batch, block_shape=block, crops=pads),
    ]


@case("Roll", "ReverseSequence", "MirrorPadGrad", "Reverse", "Cumprod", "TensorStridedSliceUpdate")
def _moved(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = tuple(draw(st.integers(2, 4)) for _ in range(draw(st.integers(2, 3))))
    x = feed(numbers(shape, seed_of(draw)))
    widths = np.array([[draw(st.integers(0, 1)) for _ in "ab"] for _ in shape], np.int32)
    mode = draw(st.sampled_from(["REFLECT", "SYMMETRIC"]))
    along, batch = draw(st.permutations(range(len(shape))))[:2]
    lengths = np.random.default_rng(seed_of(draw)).integers(0, shape[along] + 1, shape[batch])
    padded = ops.MirrorPad(input=x, paddings=widths, mode=mode)
    cut = [np.array(each, np.int32) for each in ([0, 1], [shape[0], shape[1]], [1, 1])]
    return [
        ops.Roll(
            input=x,
            shift=np.array([draw(st.integers(-5, 5)) for _ in shape], np.int32),
            axis=np.arange(len(shape), dtype=np.int32),
        ),
        ops.ReverseSequence(
            input=x, seq_lengths=feed(lengths.astype(np.int32)), seq_dim=along, batch_dim=batch
        ),
        ops.MirrorPadGrad(input=padded, paddings=widths, mode=mode),
        ops.Reverse(tensor=x, dims=np.array([draw(st.booleans()) for _ in shape])),
        ops.Cumprod(
            x=x,
            axis=np.int32(draw(st.integers(-len(shape), len(shape) - 1))),
            exclusive=draw(st.booleans()),
            reverse=draw(st.booleans()),
        ),
        ops.TensorStridedSliceUpdate(
            input=x,
            begin=cut[0],
            end=cut[1],
            strides=cut[2],
            value=feed(numbers((shape[0], shape[1] - 1, *shape[2:]), 4)),
        ),
        ops.Empty(shape=np.array(shape, np.int32), dtype="float32", init=True),
    ]
