"""Columns of the answers of a store as numpy arrays, without a Python value for each row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from graphstore.columns.coded import Bool, Coded, Float, Int, Lists, Numbers, small, starts
from graphstore.contract import QueryResult

_T = TypeVar("_T")


def table_of(answer: QueryResult) -> Any:
    """The rows of an answer as an Arrow table."""
    import pyarrow as pa

    columns = zip(*answer.rows, strict=True) if answer.rows else ((),) * len(answer.columns)
    return pa.table({n: list(c) for n, c in zip(answer.columns, columns, strict=True)})


def coded(column: Any, make: Callable[[Any], _T]) -> Coded[_T]:
    """A column of texts, each different one (None for null) made a value by *make*."""
    import pyarrow as pa

    whole_column = _one_chunk(column)
    if not len(whole_column):
        return Coded.of(())
    if whole_column.null_count == len(whole_column):
        return Coded.same(make(None), len(whole_column))
    encoded = whole_column.cast(pa.string()).dictionary_encode()
    values = [make(text) for text in encoded.dictionary.to_pylist()]
    if whole_column.null_count:
        values.append(make(None))
    codes = _plain(encoded.indices, np.int32, len(values) - 1)
    return Coded(small(codes, len(values)), tuple(values))


def texts(column: Any) -> list[str | None]:
    """A column of texts, None for null."""
    whole_column = _one_chunk(column)
    if not len(whole_column):
        return []
    _, place, content = whole_column.buffers()
    size = len(whole_column) + 1
    ends = np.frombuffer(place, np.int32, size, whole_column.offset * 4).tolist()
    data = content.to_pybytes()[ends[0] : ends[-1]] if content is not None else b""
    text, first = data.decode(), ends[0]
    if len(text) == len(data):
        values = [text[low - first : high - first] for low, high in pairwise(ends)]
    else:  # a character is more than a byte
        values = [data[low - first : high - first].decode() for low, high in pairwise(ends)]
    return with_nulls(whole_column, values)


def with_nulls(column: Any, values: list[_T]) -> list[_T | None]:
    """The *values* of a column with None where it is null."""
    if not column.null_count:
        return [*values]
    pairs = zip(values, known(column).tolist(), strict=True)
    return [value if is_known else None for value, is_known in pairs]


def floats(column: Any) -> Float:
    """A column of numbers, NaN for null."""
    import pyarrow as pa

    values: Float = _plain(_one_chunk(column).cast(pa.float64()), np.float64, np.nan)
    return values


def integers(column: Any, absent: int = -1) -> Numbers:
    """A column of whole numbers, *absent* for null."""
    import pyarrow as pa

    values: Numbers = _plain(_one_chunk(column).cast(pa.int64()), np.int64, absent)
    return values


def truths(column: Any) -> Bool:
    """A column of truth values, false for null."""
    import pyarrow as pa

    bits = _one_chunk(column).cast(pa.bool_()).cast(pa.int8())
    values: Bool = _plain(bits, np.int8, 0) != 0
    return values


def known(column: Any) -> Bool:
    """The rows of a column that are not null."""
    return truths(_one_chunk(column).is_valid())


def lists(column: Any) -> Lists:
    """A column of lists of texts; null is an empty list."""
    start, values = _flat(column)
    texts = coded(values, lambda text: text)
    return Lists(start, texts.codes.astype(np.int32), texts.values)


def named_rows(column: Any) -> dict[str, Int]:
    """The rows of a column of lists of texts in which each text stands."""
    start, values = _flat(column)
    if not len(values):
        return {}
    texts = coded(values, str)
    rows = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    return {name: rows[texts.codes == code] for code, name in enumerate(texts.values)}


def combinations(column: Any, make: Callable[[str], _T]) -> Coded[tuple[_T, ...]]:
    """A column of short lists of few different texts, each made a tuple of values by *make*."""
    start, values = _flat(column)
    if not len(values):
        return Coded.same((), len(start) - 1)
    texts = coded(values, str)
    base, counts = len(texts.values) + 1, np.diff(start)
    # each list as a number: its texts are the digits
    keys = np.zeros(len(counts), dtype=object if base ** int(counts.max()) > 2**62 else np.int64)
    for place in range(int(counts.max())):
        longer = counts > place
        keys[longer] = keys[longer] * base + texts.codes[start[:-1][longer] + place] + 1
    _, firsts, codes = np.unique(keys, return_index=True, return_inverse=True)
    members = [make(text) for text in texts.values]
    combinations = [
        tuple(members[code] for code in texts.codes[start[row] : start[row + 1]].tolist())
        for row in firsts.tolist()
    ]
    return Coded(small(codes.reshape(-1), len(combinations)), tuple(combinations))


def _one_chunk(column: Any) -> Any:
    """A column in one piece."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _flat(column: Any) -> tuple[Int, Any]:
    """Where the lists of a column start, and all their values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole_column = _one_chunk(column)
    if pa.types.is_null(whole_column.type):
        return starts([0] * len(whole_column)), pa.array([], pa.string())
    return starts(_plain(pc.list_value_length(whole_column), np.int32, 0)), whole_column.flatten()


def _plain(column: Any, kind: Any, absent: float) -> Any:
    """The numbers of an Arrow array, *absent* for null.

    Its own ``fill_null`` and ``to_numpy`` of truth values import pandas, where that is installed.
    """
    place = column.offset * np.dtype(kind).itemsize
    if not len(column):
        return np.zeros(0, dtype=kind)
    values = np.frombuffer(column.buffers()[1], kind, len(column), place)
    return np.where(known(column), values, kind(absent)) if column.null_count else values
