"""What ladybug says of a query, in our words and with its position."""

from __future__ import annotations

import difflib
import re

from graphstore.errors import DivergraphError, QueryError, StoreError
from graphstore.schema.tables import NODES, RELS

_PLACE = re.compile(r"\(line: (\d+), offset: (\d+)\)")
_KIND = re.compile(r"^(?:Parser|Binder|Catalog|Runtime|Conversion) exception: ")
_NO_PROPERTY = re.compile(r"Cannot find property (\S+) for (\S+?)\.?$")
_NO_TABLE = re.compile(r"Table (\S+) does not exist")
_NOT_IN_SCOPE = re.compile(r"Variable (\S+) is not in scope")


def too_long(timeout: float | None) -> QueryError:
    """The error of a query that took longer than *timeout* seconds."""
    limit = "any limit" if timeout is None else f"{timeout:g} s"
    return QueryError(
        f"the query took longer than {limit}", hint="narrow it, or raise the time limit"
    )


def query_error(cypher: str, said: str, timeout: float | None, before: int = 0) -> DivergraphError:
    """The error behind the engine's message *said*.

    The engine was given *cypher* after so many other characters of one line as *before* says.
    """
    first = said.strip().partition("\n")[0]
    if first.startswith("Interrupted") and timeout is None:
        return StoreError("the store was closed while a query ran")
    if first.startswith("Interrupted"):
        return too_long(timeout)
    place = _PLACE.search(first)
    position = None
    if place is not None:
        position = max(0, _offset(" " * before + cypher, int(place[1]), int(place[2])) - before)
        first = first[: place.start()].strip()
    first = _KIND.sub("", first)
    known = _unknown_property(cypher, first) or _unknown_table(cypher, first)
    if known is not None:
        return known
    scope = _NOT_IN_SCOPE.match(first)
    if scope is not None:
        position = _word_place(cypher, scope[1])
    return QueryError(first, position=position)


def _unknown_property(cypher: str, said: str) -> QueryError | None:
    match = _NO_PROPERTY.match(said)
    if match is None:
        return None
    name, variable = match[1], match[2]
    columns = sorted(
        {column.name for node in NODES for column in node.columns} - {name}
        | {column.name for rel in RELS for column in rel.columns} - {name}
    )
    place = re.search(rf"\b{re.escape(variable)}\s*\.\s*`?({re.escape(name)})\b", cypher)
    position = _word_place(cypher, name) if place is None else place.start(1)
    return QueryError(
        f"{variable} has no property {name}", position=position, hint=_near(name, columns)
    )


def _unknown_table(cypher: str, said: str) -> QueryError | None:
    match = _NO_TABLE.match(said)
    if match is None:
        return None
    names = [table.label for table in NODES] + [table.type for table in RELS]
    return QueryError(
        f"there is no label or relationship {match[1]}",
        position=_word_place(cypher, match[1]),
        hint=_near(match[1], names) or f"there are {', '.join(names)}",
    )


def _near(name: str, names: list[str]) -> str:
    lower = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), lower)
    return f"did you mean {', '.join(lower[one] for one in near)}?" if near else ""


def _word_place(cypher: str, word: str) -> int | None:
    match = re.search(rf"\b{re.escape(word)}\b", cypher)
    return None if match is None else match.start()


def _offset(cypher: str, line: int, column: int) -> int:
    before = cypher.splitlines(keepends=True)[: line - 1]
    return sum(map(len, before)) + column
