"""A loaded graph as bytes: one ``.npy`` array after the other, texts as one column of UTF-8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded, Lists
from graphstore.cypher.op_search import OpIndex
from graphstore.cypher.targets import LoadedGraph
from graphstore.traverse.arrays import GraphArrays

_END = "\0"
"""Ends each text of a column; graphs with a text that holds it are not kept."""


def packed(graph: LoadedGraph) -> bytes:
    """The bytes of *graph*.

    Raises:
        ValueError: a text holds the character that ends texts.
    """
    index, arrays, lists = graph.index, graph.arrays, graph.given
    pairs = enumerate(zip(index.ids, index.names, strict=True))
    renamed = [number for number, (op, name) in pairs if op != name]
    kinds = Coded.of(index.kinds)
    columns = (
        np.array([graph.exact]),
        _text_column(index.ids),
        np.asarray(renamed, dtype=np.int32),
        _text_column([index.names[number] for number in renamed]),
        kinds.codes,
        _text_column(kinds.values),
        arrays.successor_start,
        arrays.successor_ops,
        arrays.predecessor_start,
        arrays.predecessor_ops,
        lists.start,
        lists.numbers,
        _text_column(lists.names),
    )
    file = BytesIO()
    for column in columns:
        np.save(file, column, allow_pickle=False)
    return file.getvalue()


def unpacked(data: bytes | memoryview, last_arrays: GraphArrays | None) -> LoadedGraph:
    """The graph of :func:`packed`; ids of the graph *last_arrays* are the same texts in memory."""
    file = BytesIO(data)

    def column() -> NDArray[Any]:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
        return array

    exact = bool(column()[0])
    ids, number = _shared(tuple(_texts(column())), last_arrays)
    names = _names(ids, column().tolist(), _texts(column()))
    codes = column()
    kinds = Coded(codes, tuple(_texts(column())))
    arrays = GraphArrays(ids, number, column(), column(), column(), column())
    lists = Lists(column(), column(), tuple(_texts(column())))
    return LoadedGraph(OpIndex.of_columns(ids, names, tuple(kinds)), arrays, lists, exact)


@dataclass(frozen=True, slots=True)
class FewTexts(Sequence[str]):
    """A text column of which few texts are asked for: a million as Python values take 100 MB."""

    column: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        """One text, or some."""
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        first = int(self.ends[numbers - 1]) + 1 if numbers else 0
        return self.column[first : self.ends[numbers]].tobytes().decode("utf-8", "surrogatepass")


def unpacked_ids(data: bytes | memoryview) -> FewTexts:
    """The ids of the graph of :func:`packed`."""
    file = BytesIO(data)
    np.load(file, allow_pickle=False)
    column: NDArray[np.uint8] = np.load(file, allow_pickle=False)
    return FewTexts(column, np.flatnonzero(column == 0))


def _shared(
    ids: tuple[str, ...], last_arrays: GraphArrays | None
) -> tuple[tuple[str, ...], dict[str, int]]:
    """*ids*, as far as they can be those of *last_arrays*, with their numbers."""
    if last_arrays is not None:
        if ids == last_arrays.ids:
            return last_arrays.ids, last_arrays.number
        places = map(last_arrays.number.get, ids)
        pairs = zip(ids, places, strict=True)
        ids = tuple(op if place is None else last_arrays.ids[place] for op, place in pairs)
    return ids, dict(zip(ids, range(len(ids)), strict=True))


def _names(ids: tuple[str, ...], renamed: list[int], own: list[str]) -> Sequence[str]:
    if not renamed:
        return ids
    names = list(ids)
    for number, name in zip(renamed, own, strict=True):
        names[number] = name
    return names


def _text_column(texts: Sequence[str]) -> NDArray[np.uint8]:
    text = _END.join([*texts, ""])
    if text.count(_END) != len(texts):
        raise ValueError("a text holds a NUL character")
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def _texts(column: NDArray[Any]) -> list[str]:
    return column.tobytes().decode("utf-8", "surrogatepass").split(_END)[:-1]
