"""Ops that count, compare and part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.element_types import numpy_type
from divergraph.execute.translate.tensorflow.rows.table import ARRAY, DATA_FLOW, MATH, NN, ROWS


@ROWS.row("DynamicPartition", source=DATA_FLOW)
def dynamic_partition(p: Piece) -> Sequence[str]:
    """The rows that each part gets."""
    rest = p.shape(0)[p.rank(1) :]
    count = int(np.prod(p.shape(1), dtype=np.int64))
    data = p.reshape(p.name(0), (count, *rest))
    parts = p.reshape(p.name(1), (count,))
    return [
        p.add("Compress", data, p.add("Equal", parts, p.const(np.array(at, p.dtype(1)))), axis=0)
        for at in range(int(p.attr("num_partitions")))
    ]


@ROWS.row("ListDiff", source=ARRAY)
def list_diff(p: Piece) -> Sequence[str]:
    """The elements of one list that the other has not, and where they are."""
    kind = numpy_type(p.attr("out_idx", "int32"))
    wide = np.int64 if p.dtype().kind in "iu" else np.float64
    x, y = (p.cast(p.name(at), wide) for at in (0, 1))
    if not p.shape(1)[0]:
        places = p.ints(*range(p.shape(0)[0]))
    else:
        same = p.add("Equal", p.add("Unsqueeze", x, p.ints(1)), p.add("Unsqueeze", y, p.ints(0)))
        hit = p.add("ReduceMax", p.cast(same, np.int32), p.ints(1), keepdims=0)
        missing = p.add("Equal", hit, p.const(np.array(0, np.int32)))
        places = p.reshape(p.add("NonZero", missing), (-1,))
    return [p.add("Gather", p.name(0), places, axis=0), p.cast(places, kind)]


@ROWS.row("InTopK", "InTopKV2", source=NN)
def in_top_k(p: Piece) -> Sequence[str]:
    """Whether fewer than k predictions are above that of the target; not where any is no number."""
    (k,) = p.integers(2) if p.has(2) else (int(p.attr("k")),)
    predictions, classes = p.name(0), p.shape(0)[1]
    targets = p.cast(p.reshape(p.name(1), (p.shape(1)[0], 1)), np.int64)
    limit = p.const(np.array(classes))
    is_inside = p.add(
        "And",
        p.add("GreaterOrEqual", targets, p.const(np.array(0))),
        p.add("Less", targets, limit),
    )
    safe = p.add("Where", is_inside, targets, p.const(np.array(0)))
    own = p.add("GatherElements", predictions, safe, axis=1)
    above = p.cast(p.add("Greater", predictions, own), np.int64)
    count = p.add("ReduceSum", above, p.ints(1), keepdims=1)
    nonfinite = p.cast(
        p.add("Or", p.add("IsNaN", predictions), p.add("IsInf", predictions)), np.int64
    )
    even = p.add(
        "Equal", p.add("ReduceMax", nonfinite, p.ints(1), keepdims=1), p.const(np.array(0))
    )
    is_in_top = p.add(
        "And", p.add("Less", count, p.const(np.array(k))), p.add("And", is_inside, even)
    )
    return [p.reshape(is_in_top, (p.shape(1)[0],))]


@ROWS.row("LowerBound", "UpperBound", source=ARRAY)
def bound(p: Piece) -> Sequence[str]:
    """How many sorted elements are below each value, or not above it."""
    kind = numpy_type(p.attr("out_type", "int32"))
    ordered = p.add("Unsqueeze", p.name(0), p.ints(1))
    values = p.add("Unsqueeze", p.name(1), p.ints(2))
    how = "Less" if p.op.type == "LowerBound" else "LessOrEqual"
    below = p.cast(p.add(how, ordered, values), kind)
    return [p.add("ReduceSum", below, p.ints(2), keepdims=0)]


@ROWS.row("Bucketize", source=MATH)
def bucketize(p: Piece) -> Sequence[str]:
    """The number of boundaries that are not above each element."""
    bounds = np.array(p.attr("boundaries", ()), np.float32)
    if not bounds.size:
        return [p.const(np.zeros(p.shape(), np.int32))]
    value = p.add("Unsqueeze", p.cast(p.name(), np.float32), p.ints(p.rank()))
    reached = p.cast(p.add("GreaterOrEqual", value, p.const(bounds)), np.int32)
    return [p.add("ReduceSum", reached, p.ints(p.rank()), keepdims=0)]


@ROWS.row("HistogramFixedWidth", source=MATH)
def histogram(p: Piece) -> Sequence[str]:
    """How many values lie in each of so many equal parts of a range; those outside count in the
    first or the last."""
    (count,) = p.integers(2)
    kind = numpy_type(p.attr("dtype", "int32"))
    low, high = (p.add("Gather", p.name(1), p.const(np.array(at)), axis=0) for at in (0, 1))
    values = p.reshape(p.name(0), (int(np.prod(p.shape(0), dtype=np.int64)), 1))
    low, high, values = (p.cast(operand, np.float64) for operand in (low, high, values))
    step = p.add("Div", p.add("Sub", high, low), p.const(np.array(count, np.float64)))
    part = p.add("Floor", p.add("Div", p.add("Sub", values, low), step))
    part = p.add("Clip", part, np.array(0.0), np.array(count - 1.0))
    hit = p.cast(p.add("Equal", part, p.const(np.arange(count, dtype=np.float64))), kind)
    return [p.add("ReduceSum", hit, p.ints(0), keepdims=0)]


@ROWS.row("UnravelIndex", source=ARRAY)
def unravel_index(p: Piece) -> Sequence[str]:
    """Places as numbers along each axis."""
    sizes = p.integers(1)
    indices, rest = [], p.name(0)
    for size in reversed(sizes):
        divisor = p.const(np.array(size, p.dtype(0)))
        indices.append(p.add("Unsqueeze", p.add("Mod", rest, divisor), p.ints(0)))
        rest = p.add("Div", rest, divisor)
    return [p.add("Concat", *reversed(indices), axis=0)]
