"""The file ``arrays-<digest>`` of a graph: what traversals and searches load of it, ready made.

It lies beside the tables, which it follows from, and goes with them: arrays in a zip file of numpy,
behind the hash of all its bytes, as the checksums in it say nothing of how many arrays there are.
One that is damaged is made again. Nothing is mapped: what a disk loses later would end the process.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
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
_FORMAT = 4
"""To be raised when the same graph gives other numbers or columns."""
_WORTH = 10_000
"""Ops of the smallest graph that is kept: others are read from their tables at once."""
_ROOM = 4
"""A file may take this part, one in so many, of the room that is left on the disk."""
_HASH_BYTES = hashlib.sha256().digest_size
_MARK = "mark"
"""The array that says format and graph."""
_ENDS = ("successor_start", "successor_ops", "predecessor_start", "predecessor_ops")


def kept(home: Path, content: str) -> LoadedGraph | None:
    """The graph of that content kept in the folder *home*; None if there is none, or damaged."""
    columns = _columns(_file(home, content), [content])
    return None if columns is None else _unpacked(columns)


def keep(root: Path, home: Path, content: str, ops: int, graph: Callable[[], LoadedGraph]) -> None:
    """Keep a *graph* of many *ops* in *home*, below *root*, for the next; or not, where that cannot
    be."""
    if ops < _WORTH:
        return
    try:
        columns = {_MARK: np.array(_mark(content)), **_packed(graph())}
    except ValueError:
        return  # it is read from its tables every time
    draft = draft_path(root)
    with suppress(OSError):
        if shutil.disk_usage(root).free < _ROOM * sum(one.nbytes for one in columns.values()):
            return
        try:
            written = io.BytesIO()
            np.savez(written, **columns)
            draft.write_bytes(_hash(written.getvalue()) + written.getvalue())
            share_as(root, draft)
            draft.replace(_file(home, content))
        finally:
            draft.unlink(missing_ok=True)


def is_sound(path: Path, contents: Iterable[str]) -> bool:
    """True if a file is what was written, of that of these *contents* it is named after."""
    named = [content for content in contents if _file(path.parent, content) == path]
    return _columns(path, named) is not None


def _file(home: Path, content: str) -> Path:
    return home / PATTERN.replace("*", _digest(content)[:16])


def _columns(path: Path, contents: Iterable[str]) -> Mapping[str, NDArray[Any]] | None:
    """All arrays of a file; None if it is not that of one of these graphs, or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body = content[_HASH_BYTES:]
    if content[:_HASH_BYTES] != _hash(body):
        return None
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        columns = dict(arrays)
    is_known = str(columns.get(_MARK)) in map(_mark, contents)
    return columns if is_known else None


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _mark(content: str) -> str:
    return f"{_FORMAT} {_digest(content)}"


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def _packed(graph: LoadedGraph) -> dict[str, Any]:
    """The arrays of *graph*.

    Raises:
        ValueError: a text holds the character that ends texts.
    """
    index, arrays, lists = graph.index, graph.arrays, graph.given
    ids, kinds = PackedTexts.of(index.ids), Coded.of(index.kinds)
    renamed = [] if index.names is index.ids else _differing(index.ids, index.names)
    return {
        "exact": np.array(graph.exact),
        "ids": ids.column,
        "ends": ids.ends,
        "checksums": ids.checksums(),
        "renamed": np.asarray(renamed, dtype=np.int32),
        "names": PackedTexts.of([index.names[number] for number in renamed]).column,
        "kinds": kinds.codes,
        "kind_names": PackedTexts.of(kinds.values).column,
        **{name: getattr(arrays, name) for name in _ENDS},
        "given_start": lists.start,
        "given": lists.numbers,
        "given_names": PackedTexts.of(lists.names).column,
    }


def _unpacked(columns: Mapping[str, NDArray[Any]]) -> LoadedGraph:
    """The graph of :func:`_packed`; its texts are made when they are asked for."""
    ids = PackedTexts(columns["ids"], columns["ends"])
    number = PlacesOfTexts(ids, columns["checksums"])
    own, kinds, given = (
        PackedTexts.of_column(columns[name]) for name in ("names", "kind_names", "given_names")
    )
    ends: dict[str, Any] = {name: columns[name] for name in _ENDS}
    arrays = GraphArrays(ids, places=number, **ends)
    names = _names(ids, columns["renamed"].tolist(), own)
    index = OpIndex(ids, names, tuple(Coded(columns["kinds"], tuple(kinds))))
    lists = Lists(columns["given_start"], columns["given"], given)
    return LoadedGraph(index, arrays, lists, bool(columns["exact"]))


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
