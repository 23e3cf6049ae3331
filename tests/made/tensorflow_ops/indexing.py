"""Ops that cut, gather and scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, seed_of, shape_of


@case("Slice", "StridedSlice", "StridedSliceGrad")
def _slices(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 4)
    x = feed(numbers(shape, seed_of(draw)))
    begin = [draw(st.integers(0, size - 1)) for size in shape]
    size = [draw(st.sampled_from([-1, 1])) for _ in shape]
    count = draw(st.integers(1, len(shape)))
    first = [draw(st.integers(-n, n - 1)) for n in shape[:count]]
    last = [draw(st.integers(-n, n)) for n in shape[:count]]
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(count)]
    masks = {
        f"{name}_mask": draw(st.integers(0, 2**count - 1))
        for name in ("begin", "end", "shrink_axis", "new_axis")
    }
    masks["ellipsis_mask"] = draw(st.sampled_from([0, 0, 1]))
    for at in range(count):
        if masks["shrink_axis_mask"] >> at & 1:
            steps[at] = 1
    bounds = [np.array(each, np.int32) for each in (first, last, steps)]
    cut = ops.StridedSlice(input=x, begin=bounds[0], end=bounds[1], strides=bounds[2], **masks)
    back = ops.StridedSliceGrad(
        shape=np.array(shape, np.int32),
        begin=bounds[0],
        end=bounds[1],
        strides=bounds[2],
        dy=cut,
        **masks,
    )
    sliced = ops.Slice(input=x, begin=np.array(begin, np.int32), size=np.array(size, np.int32))
    return [cut, back, sliced]


@case("GatherV2", "GatherNd", "ScatterNd", "UnsortedSegmentSum", "SegmentSum", "Gather")
def _gathered(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x = feed(numbers(shape, seed_of(draw)))
    rng = np.random.default_rng(seed_of(draw))
    axis = draw(st.integers(0, len(shape) - 1))
    ids = rng.integers(0, shape[axis], shape_of(draw, 0, 2)).astype(np.int32)
    places = np.stack([rng.integers(0, size, 5) for size in shape], axis=-1).astype(np.int32)
    rows = rng.integers(-1, 3, shape[0]).astype(np.int32)
    return [
        ops.GatherV2(params=x, indices=feed(ids), axis=np.int32(axis)),
        ops.Gather(params=x, indices=feed(rng.integers(0, shape[0], 3).astype(np.int32))),
        ops.GatherNd(params=x, indices=feed(places)),
        ops.ScatterNd(
            indices=feed(places), updates=feed(numbers((5,), 2)), shape=np.array(shape, np.int32)
        ),
        ops.UnsortedSegmentSum(data=x, segment_ids=feed(rows), num_segments=np.int32(3)),
        ops.SegmentSum(data=x, segment_ids=np.sort(np.abs(rows))),
    ]


@case("TopKV2", "Where", "DynamicStitch")
def _chosen(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    n = draw(st.integers(2, 5))
    x = feed(np.random.default_rng(seed_of(draw)).permutation(n * 3).reshape(n, 3).astype("f4"))
    first = np.array([0, n], np.int32)
    return [
        *ops.TopKV2(input=x, k=np.int32(2)),
        ops.Where(condition=feed(numbers((n, 2), seed_of(draw), "b1"))),
        ops.DynamicStitch(
            indices=[first, np.arange(n, dtype=np.int32)[::-1].copy()],
            data=[feed(numbers((2, 3), 5)), x],
        ),
    ]


@case("Unique", "UniqueWithCounts")
def _unique(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    x = feed(numbers(shape_of(draw, 1, 1), seed_of(draw), draw(st.sampled_from(["f4", "i4"]))))
    return [*ops.Unique(x=x), *ops.UniqueWithCounts(x=x)]


@case("SparseToDense")
def _sparse_to_dense(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    rows, columns = draw(SIZES), draw(SIZES)
    chosen = np.random.default_rng(seed_of(draw)).permutation(rows * columns)[: draw(SIZES)]
    places = np.sort(chosen)
    return ops.SparseToDense(
        sparse_indices=feed(np.stack(np.divmod(places, columns), 1).astype("i8")),
        output_shape=np.array([rows, columns], "i8"),
        sparse_values=feed(numbers((len(places),), seed_of(draw))),
        default_value=feed(np.float32(0.5)),
    )
