"""The file ``arrays-<digest>`` of a graph: what traversals and searches load of it, ready made.

It lies beside the database, which it follows from, and goes with it. The first line says its format
and hashes: of the graph's content, and of all that comes after. A file is read whole and its hash
taken before anything of it is used; one that is damaged is made again. Nothing is mapped: what a
disk loses later would end the process.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from graphstore.cypher.targets import LoadedGraph
from graphstore.embedded.disk import draft_path
from graphstore.embedded.outlines.columns import packed, unpacked, unpacked_ids
from graphstore.private_folder import share_as
from graphstore.traverse.arrays import GraphArrays

PATTERN = "arrays-*"
_FORMAT = 1
"""To be raised when the same graph gives other numbers or columns."""
_WORTH = 10_000
"""Ops of the smallest graph that is kept: others are read from their database at once."""
_ROOM = 4
"""A file may take this part, one in so many, of the room that is left on the disk."""
_LONGEST_MARK = 200


def kept(home: Path, content: str, last_arrays: GraphArrays | None) -> LoadedGraph | None:
    """The graph of that content kept in the folder *home*; None if there is none, or damaged."""
    body = _body(_file(home, content), [content])
    return None if body is None else unpacked(body, last_arrays)


def kept_ids(home: Path, content: str) -> Sequence[str] | None:
    """The ids alone of the graph that :func:`kept` gives, made texts one by one."""
    body = _body(_file(home, content), [content])
    return None if body is None else unpacked_ids(body)


def keep(root: Path, home: Path, content: str, graph: LoadedGraph) -> None:
    """Keep a large graph in *home*, below *root*, for the next; or not, where that cannot be."""
    if len(graph.index.ids) < _WORTH:
        return
    try:
        body = packed(graph)
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
    return f"{_FORMAT} {_digest(content)} ".encode()


def _hash(body: bytes | memoryview) -> bytes:
    return f"{hashlib.sha256(body).hexdigest()}\n".encode()


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()
