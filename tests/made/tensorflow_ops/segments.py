"""Ops that put rows together by segments and sparse indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, seed_of, shape_of

_SORTED = ("Sum", "Prod", "Max", "Min", "Mean")
_SPARSE = ("Sum", "Mean", "SqrtN")


@case(*(f"Segment{kind}" for kind in _SORTED))
def _segments(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x = feed(numbers(shape, seed_of(draw)))
    rng = np.random.default_rng(seed_of(draw))
    ids = np.sort(rng.integers(0, 5, shape[0])).astype(np.int32)
    return [getattr(ops, f"Segment{kind}")(data=x, segment_ids=ids) for kind in _SORTED]


@case("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd")
def _unsorted(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    kind = draw(st.sampled_from(["f4", "i4"]))
    x = feed(numbers(shape, seed_of(draw), kind))
    cut = draw(st.integers(1, len(shape)))
    ids = np.random.default_rng(seed_of(draw)).integers(-1, 3, shape[:cut]).astype(np.int32)
    return [
        getattr(ops, f"UnsortedSegment{how}")(
            data=x, segment_ids=feed(ids), num_segments=np.int32(4)
        )
        for how in ("Max", "Min", "Prod")
    ]


@case(*(f"SparseSegment{kind}" for kind in _SPARSE), "SparseSegmentMeanGrad")
def _sparse(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    x, count = feed(numbers(shape, seed_of(draw))), draw(SIZES)
    rng = np.random.default_rng(seed_of(draw))
    places = feed(rng.integers(0, shape[0], count).astype(np.int32))
    ids = np.sort(rng.integers(0, 4, count)).astype(np.int32)
    found = []
    for kind in _SPARSE:
        plain = {"data": x, "indices": places, "segment_ids": ids}
        made = getattr(ops, f"SparseSegment{kind}")(**plain)
        with_number = getattr(ops, f"SparseSegment{kind}WithNumSegments")
        back = getattr(ops, f"SparseSegment{kind}Grad")(
            grad=made, indices=places, segment_ids=ids, output_dim0=np.int32(shape[0])
        )
        found += [made, with_number(**plain, num_segments=np.int32(5)), back]
    return found


@case("SparseTensorDenseMatMul")
def _sparse_times_dense(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    rows, columns, wide, count = (draw(SIZES) for _ in range(4))
    first, second = draw(st.booleans()), draw(st.booleans())
    inner = rows if first else columns
    chosen = np.random.default_rng(seed_of(draw)).permutation(rows * columns)[:count]
    places = np.stack(np.divmod(np.sort(chosen), columns), 1).astype("i8")
    return ops.SparseTensorDenseMatMul(
        a_indices=feed(places),
        a_values=feed(numbers((len(places),), seed_of(draw))),
        a_shape=np.array([rows, columns], "i8"),
        b=feed(numbers((wide, inner) if second else (inner, wide), seed_of(draw))),
        adjoint_a=first,
        adjoint_b=second,
    )


@case("Bincount", "DenseBincount", "Bucketize", "HistogramFixedWidth")
def _counted(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape, size = shape_of(draw, 1, 2), draw(SIZES)
    ids = np.random.default_rng(seed_of(draw)).integers(0, 6, shape).astype(np.int32)
    weights = numbers(shape, seed_of(draw))
    none = np.zeros(0, np.float32)
    x = feed(numbers(shape, seed_of(draw)))
    return [
        ops.Bincount(arr=feed(ids), size=np.int32(size), weights=feed(weights)),
        ops.Bincount(arr=feed(ids), size=np.int32(size), weights=none),
        ops.DenseBincount(input=feed(ids), size=np.int32(size), weights=feed(weights)),
        ops.DenseBincount(input=feed(ids), size=np.int32(size), weights=none, binary_output=True),
        ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5]),
        ops.HistogramFixedWidth(
            values=x, value_range=feed(np.array([-1, 1], "f4")), nbins=np.int32(size)
        ),
    ]
