"""Query packs: named queries of others, in folders and in installed packages.

A pack is a folder of ``.cypher`` files as :mod:`graphstore.cypher.query_file` reads them. Packs are
found by the entry points of the group ``divergraph.queries``, each a package with such files, in
the folders that ``DIVERGRAPH_PACKS`` names, and in those of :func:`known_packs`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from graphstore.cypher.query_file import Dialect, NamedQuery, parse_query, text_line
from graphstore.cypher.read_only import check_read_only
from graphstore.cypher.text import parameters, tokens
from graphstore.errors import InputError, QueryError

ENTRY_POINT_GROUP = "divergraph.queries"
VARIABLE = "DIVERGRAPH_PACKS"
_ENDING = ".cypher"
_NAME = re.compile(r"[a-z]\w*")
_KINDS = frozenset(
    f"{side}{kind}" for side in ("", "device ", "original ") for kind in ("op", "ops")
) | {"text", "number", "factor"}
_OF_TARGET = frozenset(("run", "graph", "device", "golden"))
_DECLARES = "// Parameter "
_MOST_BYTES = 2**20
_ADDED: list[Path] = []


@dataclass(frozen=True, slots=True)
class QueryPack:
    """A pack by name: its queries by stem of their file, ``name`` or ``name.dialect``."""

    name: str
    queries: Mapping[str, NamedQuery]


@contextmanager
def known_packs(folders: Iterable[Path]) -> Iterator[None]:
    """While this process is in the block, the packs in *folders* are known.

    Raises:
        InputError: there is no such folder.
    """
    added = [folder.expanduser().resolve() for folder in folders]
    for folder in added:
        if not folder.is_dir():
            raise InputError("there is no such folder of queries", where=str(folder))
    before = _ADDED[:]
    _ADDED.extend(added)
    try:
        yield
    finally:
        _ADDED[:] = before


def query_packs(own_names: Collection[str]) -> list[QueryPack]:
    """All packs; no query may have a name in *own_names*, or one that an earlier pack has.

    Raises:
        InputError: a file of one is not what it should be; says which, where, and the line.
    """
    packs = [read_pack(name, folder) for name, folder in _places()]
    places = dict.fromkeys(own_names, "the program")
    for pack in packs:
        for stem, query in pack.queries.items():
            other = places.get(query.name)
            if other is not None and Path(other).parent != Path(query.place).parent:
                message = f"there is a query {query.name} already, of {other}"
                raise InputError(message, where=f"{query.place}:1", hint="give it another name")
            places.setdefault(stem.partition(".")[0], query.place)
    return packs


def read_pack(name: str, folder: Traversable) -> QueryPack:
    """The pack *name* in *folder*.

    Raises:
        InputError: a file of it is not what it should be.
    """
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        message = f"the queries cannot be read: {error.strerror}"
        raise InputError(message, where=str(folder)) from error
    queries = {
        entry.name.removesuffix(_ENDING): _query(name, entry)
        for entry in entries
        if entry.name.endswith(_ENDING) and not entry.name.startswith(".")
    }
    if not queries:
        hint = "a pack is a folder of .cypher files"
        raise InputError("there are no queries in it", where=str(folder), hint=hint)
    return QueryPack(name, queries)


def _places() -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            yield entry.name, files(entry.value)
        except (ImportError, TypeError) as error:
            message = f"the queries of the package cannot be found: {error}"
            raise InputError(message, where=f"entry point {entry.name} = {entry.value}") from error
    named = [text for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    for folder in dict.fromkeys([*(Path(text).expanduser().resolve() for text in named), *_ADDED]):
        yield folder.name, folder


def _query(pack: str, entry: Traversable) -> NamedQuery:
    place = str(entry)
    name, _, dialect = entry.name.removesuffix(_ENDING).partition(".")
    if not _NAME.fullmatch(name) or (dialect and dialect not in list(Dialect)):
        hint = "name.cypher, name.embedded.cypher or name.neo4j.cypher, in small letters"
        raise InputError("a query cannot be named so", where=place, hint=hint)
    text = _file_text(entry)
    try:
        query = parse_query(name, text)
    except ValueError as error:
        hint = "begin with `// Answers: ...`"
        message = "it does not say what it answers"
        raise InputError(message, where=f"{place}:1", hint=hint) from error
    if query.internal:
        message = "only queries of the program are internal"
        raise InputError(message, where=f"{place}:1", hint="begin with `// Answers: ...`")
    query = replace(query, pack=pack, place=place)
    for language in [Dialect(dialect)] if dialect else Dialect:
        _check_text(text, query, language)
    return query


def _file_text(entry: Traversable) -> str:
    try:
        with entry.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise InputError("it is too long for a query", where=str(entry))
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError("it is not UTF-8 text", where=f"{entry}:{line}") from error
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", where=str(entry)) from error


def _check_text(text: str, query: NamedQuery, dialect: Dialect) -> None:
    """Return if *query* only reads, and what it takes is what it says.

    Raises:
        InputError: it does not; says in which line.
    """
    for at, line in enumerate(text.splitlines(), 1):
        if line.startswith(_DECLARES):
            _check_declared(*line.removeprefix(_DECLARES).partition(": ")[::2], query, at)
    try:
        check_read_only(query.text, dialect)
        used = parameters(tokens(query.text))
    except QueryError as error:
        where = f"{query.place}:{text_line(text, query, error.position)}"
        raise InputError(error.what, where=where, hint=error.hint) from error
    for name, position in used.items():
        if name not in query.parameters and name not in _OF_TARGET:
            where = f"{query.place}:{text_line(text, query, position)}"
            hint = f"add `{_DECLARES}{name}: KIND` at the top"
            raise InputError(f"${name} is not declared", where=where, hint=hint)
    for name in query.parameters:
        if name not in used:
            raise InputError(f"the text does not use ${name}", where=f"{query.place}:1")


def _check_declared(name: str, kind: str, query: NamedQuery, line: int) -> None:
    where = f"{query.place}:{line}"
    if kind not in _KINDS:
        message = f"the parameter {name} is of no known kind: {kind!r}"
        raise InputError(message, where=where, hint=f"one of {', '.join(sorted(_KINDS))}")
    if name in _OF_TARGET:
        message = f"${name} comes from the run or graph that is asked"
        raise InputError(message, where=where, hint="leave the line away")
