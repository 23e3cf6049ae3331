"""Columns of the answers of a store as numpy arrays, without a Python value for each row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from graphstore.columns.coded import Bool, Coded, Float, Int, Lists, Numbers, small, starts
from graphstore.contract import QueryResult

_T = TypeVar("_T")


def table_of(answer: QueryResult) -> Any:
    """The rows of an answer as an Arrow table."""
    import pyarrow as pa

    return pa.table({name: list(column) for name, column in columns_of(answer).items()})


def array_of(values: Any, absent: Any = None) -> Any:
    """An Arrow array of numbers, truth values or texts, null where *absent* is true.

    Arrow's own ``array`` loads pandas, where that is installed: as long as all else takes.
    """
    import pyarrow as pa

    if isinstance(values, list) and (not values or isinstance(values[0], str)):
        data = [text.encode() for text in values]
        ends = starts(list(map(len, data)))
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
        return pa.Array.from_buffers(pa.string(), len(data), buffers)
    numbers = np.asarray(values)
    valid = None
    if absent is not None and absent.any():
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    kinds = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64()}
    if numbers.dtype.kind == "b":
        content = np.packbits(numbers, bitorder="little")
    else:
        content = np.ascontiguousarray(numbers, f"{numbers.dtype.kind}8")
    buffers = [valid, pa.py_buffer(content)]
    return pa.Array.from_buffers(kinds[numbers.dtype.kind], len(numbers), buffers)


def columns_of(answer: QueryResult) -> Mapping[str, Sequence[Any]]:
    """The values of an answer by column."""
    values = zip(*answer.rows, strict=True) if answer.rows else itertools.repeat(())
    return dict(zip(answer.columns, values, strict=False))


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
        return texts(column)
    if pa.types.is_list(kind):
        return [value for part in getattr(column, "chunks", [column]) for value in _lists(part)]
    if pa.types.is_signed_integer(kind):
        return with_nulls(column, integers(column).tolist())
    if pa.types.is_float64(kind):
        return with_nulls(column, floats(column).tolist())
    if pa.types.is_boolean(kind):
        return with_nulls(column, truths(column).tolist())
    others: list[object] = column.to_pylist()
    return others


def _lists(part: Any) -> Iterator[list[object] | None]:
    """The same as ``part.to_pylist()`` of an array of lists, several times as fast."""
    import pyarrow as pa

    ends = integers(part.offsets).tolist()
    start = ends[0]
    content = part.values.slice(start, ends[-1] - start)
    is_text = pa.types.is_string(content.type)
    values = texts(content) if is_text else content.to_pylist()
    there = known(part).tolist()
    for (low, high), is_set in zip(pairwise(ends), there, strict=True):
        yield [*values[low - start : high - start]] if is_set else None


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
