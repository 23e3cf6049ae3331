"""Rows put together by segments, and by sparse indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import MATH, ROWS, SPARSE

_STARTS = {"Sum": ("add", 0), "Prod": ("mul", 1), "Max": ("max", None), "Min": ("min", None)}
"""How the rows of a segment are put together, and what one without rows has: of the largest and
smallest the least, or most, there is."""


@ROWS.row(
    *(f"UnsortedSegment{how}" for how in _STARTS),
    *("SegmentSum", "SegmentSumV2", "SegmentProd", "SegmentProdV2"),
    source=MATH,
)
def segments(p: Piece) -> Outputs:
    """The sum, product, largest or smallest element of each segment; rows of negative segments are
    left out."""
    how, start = next(start for kind, start in _STARTS.items() if f"Segment{kind}" in p.op.type)
    empty = _neutral(p, how) if start is None else start
    return [_by_segment(p, p.name(0), p.shape(0), 1, _count(p), how, empty)]


@ROWS.row("SegmentMax", "SegmentMaxV2", "SegmentMin", "SegmentMinV2", source=MATH)
def segment_extreme(p: Piece) -> Outputs:
    """The largest, or smallest, element of each segment; 0 of none."""
    how = "max" if "Max" in p.op.type else "min"
    count = _count(p)
    extremes = _by_segment(p, p.name(0), p.shape(0), 1, count, how, _neutral(p, how))
    if p.op.type.endswith("V2"):
        return [extremes]
    rows = np.bincount(p.integers(1), minlength=count)
    missing = p.const((rows == 0).reshape(-1, *(1 for _ in p.shape(0)[1:])))
    return [p.add("Where", missing, 0, extremes)]


@ROWS.row("SegmentMean", source=MATH)
def segment_mean(p: Piece) -> Outputs:
    """The mean of all rows of each segment; 0 of none."""
    sums = _by_segment(p, p.name(0), p.shape(0), 1, _count(p), "add", 0)
    return [_shared(p, sums, 1, len(p.shape(0)), power=1.0)]


_SPARSE = ("Sum", "Mean", "SqrtN")


@ROWS.row(*(f"SparseSegment{kind}" for kind in _SPARSE), source=MATH)
@ROWS.row(*(f"SparseSegment{kind}WithNumSegments" for kind in _SPARSE), source=MATH)
def sparse_segment(p: Piece) -> Outputs:
    """Rows that are looked up, added by segment: as sums, means, or over the root of their
    number."""
    rows = p.add("Gather", p.name(0), p.name(1), axis=0)
    shape = (*p.shape(1), *p.shape(0)[1:])
    count = p.integers(3)[0] if p.has(3) else max(p.integers(2), default=-1) + 1
    sums = _by_segment(p, rows, shape, 2, count, "add", 0)
    return [_shared(p, sums, 2, len(shape), power=_power(p), count=count)]


@ROWS.row(*(f"SparseSegment{kind}Grad" for kind in _SPARSE), source=MATH)
def sparse_segment_grad(p: Piece) -> Outputs:
    """The gradient of each segment shared out to the rows that were looked up."""
    (rows,) = p.integers(3)
    count, *inner = p.shape(0)
    shared = _shared(p, p.name(0), 2, p.rank(0), power=_power(p), count=count)
    shares = p.add("Gather", shared, p.name(2), axis=0)
    places = p.reshape(p.cast(p.name(1), np.int64), (*p.shape(1), 1))
    zeros = p.const(np.zeros((rows, *inner), p.dtype(0)))
    return [p.add("ScatterND", zeros, places, shares, reduction="add")]


def _power(p: Piece) -> float:
    kind = p.op.type.removeprefix("SparseSegment")
    return 0.0 if kind.startswith("Sum") else 1.0 if kind.startswith("Mean") else 0.5


def _count(p: Piece) -> int:
    """How many segments there are: as an input says, or up to the last one."""
    return p.integers(2)[0] if p.has(2) else int(p.value(1).max(initial=-1)) + 1


def _neutral(p: Piece, how: str) -> float | int:
    kind = p.dtype(0)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    return limits.min if how == "max" else limits.max


def _by_segment(
    p: Piece, rows: Expr, shape: Sequence[int], ids_at: int, count: int, how: str, empty: float
) -> Expr:
    """*rows* put together by the segments of input *ids_at*; *empty* where there are none."""
    ids = p.cast(p.name(ids_at), np.int64)
    # One row more takes those of negative segments.
    ids = p.add("Where", ids < 0, p.const(np.array(count)), ids)
    places = p.reshape(ids, (*p.shape(ids_at), 1))
    start = p.const(np.full((count + 1, *shape[p.rank(ids_at) :]), empty, p.dtype(0)))
    scattered = p.add("ScatterND", start, places, rows, reduction=how)
    return p.add("Slice", scattered, p.ints(0), p.ints(count), p.ints(0))


def _shared(
    p: Piece, sums: Expr, ids_at: int, rank: int, *, power: float, count: int | None = None
) -> Expr:
    """*sums* by the number of rows of each segment, to a *power*."""
    if not power:
        return sums
    ids = p.integers(ids_at)
    many = np.bincount(ids, minlength=count or 0)[: count if count is not None else None]
    below = np.maximum(many, 1).astype(np.float64) ** power
    return sums / p.const(below.astype(p.dtype(0)).reshape(-1, *[1] * (rank - 1)))


@ROWS.row("SparseTensorDenseMatMul", source=SPARSE)
def sparse_times_dense(p: Piece) -> Outputs:
    """A matrix of listed elements times another one."""
    row, column = (1, 0) if p.attr("adjoint_a", False) else (0, 1)
    dense = p.transpose(p.name(3), 1, 0) if p.attr("adjoint_b", False) else p.name(3)
    wide = p.shape(3)[0 if p.attr("adjoint_b", False) else 1]
    places = p.cast(p.name(0), np.int64)
    rows, columns = (p.add("Gather", places, p.const(np.array(at)), axis=1) for at in (row, column))
    gathered = p.add("Gather", dense, columns, axis=0)
    scaled = gathered * p.reshape(p.name(1), (-1, 1))
    zeros = p.const(np.zeros((p.integers(2)[row], wide), p.dtype(1)))
    return [p.add("ScatterND", zeros, p.reshape(rows, (-1, 1)), scaled, reduction="add")]


@ROWS.row("Bincount", "DenseBincount", source=MATH)
def bin_count(p: Piece) -> Outputs:
    """How often each number comes up, or the sum of its weights; Dense of a matrix, row by row."""
    (size,) = p.integers(1)
    ids = p.cast(p.name(0), np.int64)
    weighted = p.has(2) and 0 not in p.shape(2)
    kind = p.dtype(2)
    by_row = p.op.type.startswith("Dense") and p.rank(0) > 1
    shape = p.shape(0) if by_row else (1, int(np.prod(p.shape(0), dtype=np.int64)))
    ids = p.reshape(ids, shape)
    one = p.add("Unsqueeze", ids, p.ints(2)).equals(p.const(np.arange(size)))
    share = p.cast(one, kind)
    if p.attr("binary_output", False):
        share = p.add("ReduceMax", share, p.ints(1), keepdims=0)
    else:
        if weighted:
            share = share * p.add("Unsqueeze", p.reshape(p.name(2), shape), p.ints(2))
        share = p.add("ReduceSum", share, p.ints(1), keepdims=0)
    return [share if by_row else p.reshape(share, (size,))]
