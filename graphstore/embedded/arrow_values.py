"""Columns of answers as Python values, several times as fast as Arrow makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from graphstore.cypher import arrow_columns as arrow


def values_of(column: Any) -> Sequence[object]:
    """The same as ``column.to_pylist()``, several times as fast for texts and numbers.

    Not by ``to_numpy``, which imports pandas where that is installed: that takes a second.
    """
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(kind):
        return arrow.texts(column)
    if pa.types.is_list(kind):
        return [value for part in getattr(column, "chunks", [column]) for value in _lists(part)]
    if pa.types.is_signed_integer(kind):
        return arrow.with_nulls(column, arrow.integers(column).tolist())
    if pa.types.is_float64(kind):
        return arrow.with_nulls(column, arrow.floats(column).tolist())
    if pa.types.is_boolean(kind):
        return arrow.with_nulls(column, arrow.truths(column).tolist())
    others: list[object] = column.to_pylist()
    return others


def _lists(part: Any) -> Iterator[list[object] | None]:
    """The same as ``part.to_pylist()`` of an array of lists, several times as fast."""
    import pyarrow as pa

    ends = arrow.integers(part.offsets).tolist()
    start = ends[0]
    content = part.values.slice(start, ends[-1] - start)
    is_text = pa.types.is_string(content.type)
    values = arrow.texts(content) if is_text else content.to_pylist()
    there = arrow.known(part).tolist()
    for (low, high), is_set in zip(pairwise(ends), there, strict=True):
        yield [*values[low - start : high - start]] if is_set else None
