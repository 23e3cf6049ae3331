"""The file ``arrays-<digest>`` of a graph: what traversals and searches load of it, ready made.

It lies beside the database, which it follows from, and goes with it. The first line says its format
and hashes: of the graph's content, and of all that comes after; the second type and length of each
of the arrays behind it. A file is read whole and its hash taken before anything of it is used; one
that is damaged is made again. Nothing is mapped: what a disk loses later would end the process.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import Coded, Lists
from graphstore.columns.packed_texts import PackedTexts, PlacesOfTexts
from graphstore.cypher.op_search import OpIndex
from graphstore.cypher.targets import LoadedGraph
from graphstore.embedded.disk import draft_path
from graphstore.private_folder import share_as
from graphstore.traverse.arrays import GraphArrays

PATTERN = "arrays-*"
_FORMAT = 2
"""To be raised when the same graph gives other numbers or columns."""
_WORTH = 10_000
"""Ops of the smallest graph that is kept: others are read from their database at once."""
_ROOM = 4
"""A file may take this part, one in so many, of the room that is left on the disk."""
_LONGEST_MARK = 200
_ALIGNED = 8
"""Every array begins at a multiple of so many bytes."""
_LONGEST_LINE = 1000
"""More bytes than the first line has."""


def kept(home: Path, content: str) -> LoadedGraph | None:
    """The graph of that content kept in the folder *home*; None if there is none, or damaged."""
    body = _body(_file(home, content), [content])
    return None if body is None else _unpacked(body)


def keep(root: Path, home: Path, content: str, ops: int, graph: Callable[[], LoadedGraph]) -> None:
    """Keep a *graph* of many *ops* in *home*, below *root*, for the next; or not, where that cannot
    be."""
    if ops < _WORTH:
        return
    try:
        body = _packed(graph())
    except ValueError:
        return  # it is read from its database every time
    draft = draft_path(root)
    with suppress(OSError):
        if shutil.disk_usage(root).free < _ROOM * len(body):
            return
        try:
            draft.write_bytes(_mark(content) + _hash(body) + body)
            share_as(root, draft)
            draft.replace(_file(home, content))
        finally:
            draft.unlink(missing_ok=True)


def is_sound(path: Path, contents: Iterable[str]) -> bool:
    """True if a file is what was written, of that of these *contents* it is named after."""
    named = [content for content in contents if _file(path.parent, content) == path]
    return _body(path, named) is not None


def _file(home: Path, content: str) -> Path:
    return home / PATTERN.replace("*", _digest(content)[:16])


def _body(path: Path, contents: Iterable[str]) -> memoryview | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = memoryview(data)[data.find(b"\n", 0, _LONGEST_MARK) + 1 :]
    begin = data[: len(data) - len(body)]
    of_graph = any(begin.startswith(_mark(content)) for content in contents)
    return body if of_graph and begin.endswith(_hash(body)) else None


def _mark(content: str) -> bytes:
    return f"{_FORMAT:5} {_digest(content)} ".encode()  # arrays behind it are aligned


def _hash(body: bytes | memoryview) -> bytes:
    return f"{hashlib.sha256(body).hexdigest()}\n".encode()


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def _packed(graph: LoadedGraph) -> bytes:
    """The bytes of *graph*.

    Raises:
        ValueError: a text holds the character that ends texts.
    """
    index, arrays, lists = graph.index, graph.arrays, graph.given
    ids, kinds = PackedTexts.of(index.ids), Coded.of(index.kinds)
    renamed = [] if index.names is index.ids else _differing(index.ids, index.names)
    columns = (
        np.array([graph.exact]),
        ids.column,
        ids.ends,
        ids.checksums(),
        np.asarray(renamed, dtype=np.int32),
        PackedTexts.of([index.names[number] for number in renamed]).column,
        kinds.codes,
        PackedTexts.of(kinds.values).column,
        arrays.successor_start,
        arrays.successor_ops,
        arrays.predecessor_start,
        arrays.predecessor_ops,
        lists.start,
        lists.numbers,
        PackedTexts.of(lists.names).column,
    )
    return b"".join(_parts(columns))


def _unpacked(data: memoryview) -> LoadedGraph:
    """The graph of :func:`_packed`, of arrays in *data*: nothing of it is copied, and texts are
    made when they are asked for."""
    column = _columns(data)
    exact = bool(next(column)[0])
    ids = PackedTexts(next(column), next(column))
    number = PlacesOfTexts(ids, next(column))
    renamed, own = next(column).tolist(), PackedTexts.of_column(next(column))
    kinds = Coded(next(column), tuple(PackedTexts.of_column(next(column))))
    arrays = GraphArrays(ids, next(column), next(column), next(column), next(column), number)
    lists = Lists(next(column), next(column), PackedTexts.of_column(next(column)))
    index = OpIndex(ids, _names(ids, renamed, own), tuple(kinds))
    return LoadedGraph(index, arrays, lists, exact)


def _parts(columns: Sequence[NDArray[Any]]) -> Iterator[bytes]:
    line = json.dumps([(column.dtype.str, len(column)) for column in columns]).encode()
    yield line + b" " * (-(len(line) + 1) % _ALIGNED) + b"\n"
    for column in columns:
        yield column.tobytes()
        yield bytes(-column.nbytes % _ALIGNED)


def _columns(data: memoryview) -> Iterator[NDArray[Any]]:
    line, _, _ = bytes(data[:_LONGEST_LINE]).partition(b"\n")
    place = len(line) + 1
    for kind, length in json.loads(line):
        column = np.frombuffer(data, kind, length, place)
        yield column
        place += column.nbytes + -column.nbytes % _ALIGNED


def _differing(ids: Sequence[str], names: Sequence[str]) -> list[int]:
    pairs = enumerate(zip(ids, names, strict=True))
    return [number for number, (op, name) in pairs if op != name]


def _names(ids: Sequence[str], renamed: list[int], own: Sequence[str]) -> Sequence[str]:
    if not renamed:
        return ids
    names = list(ids)
    for number, name in zip(renamed, own, strict=True):
        names[number] = name
    return tuple(names)
