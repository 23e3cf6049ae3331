"""Ops that only move values, change their type, or say shapes."""

from __future__ import annotations

import numpy as np

LONG = np.int32


def ints(*values):
    return np.array(values, LONG)


def handed_on(add, draw):
    x = draw(4, 1, 6)
    for op in ("Identity", "StopGradient", "PreventGradient", "Snapshot", "Copy"):
        add(op, op, [x], [x])
    add("reshape", "Reshape", [x, ints(6, 4)], [x.reshape(6, 4)])
    for op in ("Squeeze", "SqueezeV2"):
        add(op, op, [x], [x[:, 0]], axis=(1,))
    add("squeeze_3", "SqueezeV3", [x, ints(1)], [x[:, 0]])
    for op in ("Unsqueeze", "UnsqueezeV2"):
        add(op, op, [x], [x[:, None]], axes=(1,))
    add("unsqueeze_3", "UnsqueezeV3", [x, ints(1)], [x[:, None]])
    add("expand", "ExpandDims", [x, ints(-1)], [x[..., None]])
    for op in ("Flatten", "FlattenV2"):
        add(op, op, [x], [x.reshape(4, 6)])
    y = draw(2, 3, 4, 4)
    add("trans", "TransData", [y], [y.transpose(0, 2, 3, 1)], ("NCHW", "NHWC"))
    rows = draw(5, 18)
    add("trans_rnn", "TransDataRNN", [rows], [rows], input_size=18, hidden_size=5)


def types(add, draw):
    x = draw.held(draw(4, 19) * 9)
    add("to_ints", "Cast", [x], [np.trunc(x).astype(LONG)], dst_type=3)
    whole = draw.whole(4, 19)
    add("to_floats", "Cast", [whole], [whole.astype(float)], dst_type=0)
    add("to_flags", "Cast", [whole], [whole != 0], dst_type=12)
    add("shape", "Shape", [x], [ints(4, 19)])
    add("shapes", "ShapeN", [x, x[0]], [np.array([4, 19]), np.array([19])], dtype=9, N=2)
    add("size", "Size", [x], [np.array(76, LONG)])
    add("rank", "Rank", [x], [np.array(2, LONG)])


def joined(add, draw):
    x, y = draw(4, 6, 5), draw(4, 6, 5)
    both = np.concatenate([x, y], 1)
    add("concat_d", "ConcatD", [x, y], [both], concat_dim=1, N=2)
    add("concat_2d", "ConcatV2D", [x, y], [both], concat_dim=-2, N=2)
    add("concat", "Concat", [ints(1)[0], x, y], [both], N=2)
    add("concat_2", "ConcatV2", [x, y, ints(1)[0]], [both], N=2)
    add("pack", "Pack", [x, y], [np.stack([x, y], 1)], axis=1, N=2)
    add("unpack", "Unpack", [x[:, :2]], [x[:, 0], x[:, 1]], axis=1, num=2)
    parts = [x[:, :2], x[:, 2:]]
    add("split_v_d", "SplitVD", [x], parts, split_dim=1, size_splits=(2, 4), num_split=2)
    add("split_v", "SplitV", [x, ints(2, 4), ints(1)[0]], parts, num_split=2)
    halves = [x[:, :3], x[:, 3:]]
    add("split_d", "SplitD", [x], halves, split_dim=1, num_split=2)
    add("split", "Split", [ints(1)[0], x], halves, num_split=2)


def cut(add, draw):
    x = draw(4, 6, 5)
    masks = {"begin_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}
    made = [x[1:, ::2, 3]]
    said = {"begin": (1, 0, 3), "end": (0, 0, 4), "strides": (1, 2, 1)}
    some = {**masks, "end_mask": 3, "shrink_axis_mask": 4}
    add("strided_d", "StridedSliceD", [x], made, **said, **some)
    given = [np.array(each, LONG) for each in said.values()]
    add("strided", "StridedSlice", [x, *given], made, **some)
    last = [ints(-1, 4), ints(0, 0), ints(1, -2)]
    backwards = {**masks, "begin_mask": 0, "end_mask": 2, "shrink_axis_mask": 1}
    add("strided_back", "StridedSlice", [x, *last], [x[-1, 4::-2]], **backwards)
    add("slice", "Slice", [x, ints(1, 2, 0), ints(2, -1, 3)], [x[1:3, 2:, :3]])
    add("slice_d", "SliceD", [x], [x[1:3, 2:, :3]], offsets=(1, 2, 0), size=(2, -1, 3))
    add("turn_d", "TransposeD", [x], [x.transpose(2, 0, 1)], perm=(2, 0, 1))
    add("turn", "Transpose", [x, ints(2, 0, 1)], [x.transpose(2, 0, 1)])
    add("back", "ReverseV2", [x, ints(0, 2)], [x[::-1, :, ::-1]])
    add("back_d", "ReverseV2D", [x], [x[:, ::-1]], axis=(1,))


def repeated(add, draw):
    x = draw(4, 6, 5)
    ends = ((0, 0), (1, 2), (0, 3))
    add("pad_d", "PadD", [x], [np.pad(x, ends)], paddings=ends)
    add("pad", "Pad", [x, np.array(ends, LONG)], [np.pad(x, ends)])
    add("tile_d", "TileD", [x], [np.tile(x, (1, 2, 1))], multiples=(1, 2, 1))
    add("tile", "Tile", [x, ints(2, 1, 3)], [np.tile(x, (2, 1, 3))])
    row = x[:1, :, :1]
    wide = np.broadcast_to(row, (3, 6, 5)).copy()
    add("broadcast_d", "BroadcastToD", [row], [wide], shape=(3, 6, 5))
    add("broadcast", "BroadcastTo", [row, ints(3, 6, 5)], [wide])
    add("range", "Range", [draw.held(v) for v in (1, 4, 0.5)], [np.arange(1, 4, 0.5)])
    add("range_d", "RangeD", [draw(6)], [np.arange(1, 4, 0.5)], start=1.0, limit=4.0, delta=0.5)


def picked(add, draw):
    x, ids = draw(4, 6, 5), ints(2, 0, 2, 1)
    add("gather", "Gather", [x, ids], [x[ids]])
    add("gather_2d", "GatherV2D", [x, ids], [x[:, ids]], axis=1)
    add("gather_2", "GatherV2", [x, ids, ints(2)[0]], [x[:, :, ids]])
    places = np.array([[0, 5], [3, 1]], LONG)
    add("gather_nd", "GatherNd", [x, places], [x[[0, 3], [5, 1]]])
    summed = np.zeros((3, 6, 5))
    np.add.at(summed, ids, x)
    add("segments_d", "UnsortedSegmentSumD", [x, ids], [summed], num_segments=3)
    add("segments", "UnsortedSegmentSum", [x, ids, ints(3)[0]], [summed])
    on, off = draw.held(2.0), draw.held(-1.0)
    hot = np.where(np.eye(4)[ids] > 0, 2.0, -1.0)
    add("one_hot", "OneHot", [ids, ints(4)[0], on, off], [hot], axis=-1)
    add("one_hot_d", "OneHotD", [ids, on, off], [hot.T], depth=4, axis=0)
    values = draw(9)
    values[[3, 7]] = values[[1, 0]]
    kept, back = _firsts(values)
    add("unique", "Unique", [values], [kept, back])
    counts = np.bincount(back).astype(LONG)
    whole = draw.whole(9, most=-14)
    add("unique_whole", "Unique", [whole], [*_firsts(whole)])
    add("unique_counts", "UniqueWithCounts", [values], [kept, back, counts])
    for name, dim, largest in (("top", -1, True), ("least", 1, False)):
        order = np.argsort(-x if largest else x, dim, kind="stable").take(range(2), dim)
        found = [np.take_along_axis(x, order, dim), order.astype(LONG)]
        said = {"dim": dim, "largest": largest, "sorted": True}
        add(name, "TopK", [x, ints(2)[0]], found, **said)
        add(f"{name}_d", "TopKD", [x, draw(10)], found, k=2, **said)
        add(f"{name}_2", "TopKV2", [x, ints(2)], found, **said)


def _firsts(values):
    """The values in the order they come first, and the place of each among them."""
    kept = values[np.sort(np.unique(values, return_index=True)[1])]
    return kept, np.array([np.flatnonzero(kept == each)[0] for each in values], LONG)


def pictures(add, draw):
    y, both = draw(2, 3, 4, 4), ("NCHW", "NCHW")
    large = y.repeat(2, 2).repeat(2, 3)
    for op in ("ResizeNearestNeighborV2", "ResizeNearestNeighborV2D"):
        add(op, op, [y, ints(8, 8)][: 1 + (op[-1] == "2")], [large], _in_and_out(op), size=(8, 8))
    add("upsample", "Upsample", [y], [large * 0.5], both, stride_h=2, stride_w=2, scale=0.5)
    for op in ("ResizeBilinearV2", "ResizeBilinearV2D"):
        given = [y, ints(6, 8)][: 1 + (op[-1] == "2")]
        add(op, op, given, [_between(y, 6, 8, _plain)], _in_and_out(op), size=(6, 8))
        made = [_between(y, 6, 8, _centred)]
        add(f"{op}_half", op, given, made, _in_and_out(op), size=(6, 8), half_pixel_centers=True)
        made = [_between(y, 6, 8, _cornered)]
        add(f"{op}_ends", op, given, made, _in_and_out(op), size=(6, 8), align_corners=True)
    z = draw(2, 8, 3, 5)
    deep = z.reshape(2, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 10)
    add("to_space", "DepthToSpace", [z], [deep], both, block_size=2, data_format="NCHW")
    columns = z.reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 10)
    crd = {"block_size": 2, "mode": "CRD", "data_format": "NCHW"}
    add("to_space_crd", "DepthToSpace", [z], [columns], both, **crd)
    add("to_depth", "SpaceToDepth", [deep], [z], both, block_size=2, data_format="NCHW")
    add("read", "ReadSelect", [y], [y[:, :, ::2, ::2]], both, stride_list=(1, 1, 2, 2, 1))


def _in_and_out(op):
    return ("NCHW", "NCHW") if op.endswith("D") else ("NCHW", "", "NCHW")


def _plain(out, size, wanted):
    return out * size / wanted


def _centred(out, size, wanted):
    return np.maximum((out + 0.5) * size / wanted - 0.5, 0)


def _cornered(out, size, wanted):
    return out * (size - 1) / (wanted - 1)


def _between(x, high, wide, place):
    """Values between pixels, along height and then along width."""
    for axis, wanted in ((2, high), (3, wide)):
        size = x.shape[axis]
        at = np.minimum(place(np.arange(wanted), size, wanted), size - 1)
        low = np.floor(at).astype(int)
        share = (at - low).reshape(-1, *(1,) * (3 - axis))
        x = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, size - 1), axis) * share
    return x


PARTS = (handed_on, types, joined, cut, repeated, picked, pictures)
