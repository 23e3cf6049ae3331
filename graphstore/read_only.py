"""Refuse Cypher that writes, or reaches files, the network or procedures.

The engines are opened read-only too; this stops what they would still allow (a COPY to a
file, LOAD CSV from an address) and says why before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphstore.errors import QueryError
from graphstore.queries import Dialect

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<open>/\*|'|"|`)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)

_WRITES = frozenset(("CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "FOREACH", "DROP"))
_REACHES_OUT = frozenset(("LOAD", "COPY", "EXPORT", "IMPORT", "ATTACH", "INSTALL", "USE"))
_PREFIXES = frozenset(("EXPLAIN", "PROFILE"))
_STARTS = frozenset(("MATCH", "OPTIONAL", "RETURN", "WITH", "UNWIND", "CALL"))

_EMBEDDED_CALLS = frozenset(
    ("show_tables", "table_info", "db_version", "show_connection", "show_functions")
)
_NEO4J_CALLS = frozenset(
    (
        "db.labels",
        "db.relationshiptypes",
        "db.propertykeys",
        "db.schema.visualization",
        "db.schema.nodetypeproperties",
        "db.schema.reltypeproperties",
        "db.index.fulltext.querynodes",
        "dbms.components",
    )
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


def check_read_only(cypher: str, dialect: Dialect) -> None:
    """Return if *cypher* is one statement that only reads the store.

    Raises:
        QueryError: it does more, is empty, or a quote or comment in it is not closed.
    """
    tokens = list(_tokens(cypher))
    if not tokens:
        raise QueryError("the query is empty")
    first = tokens[0]
    if first.text.upper() in _PREFIXES and len(tokens) > 1:
        first = tokens[1]
    if first.kind != "word" or first.text.upper() not in _STARTS:
        raise QueryError(
            f"a query does not start with {first.text!r}",
            position=first.start,
            hint="only reading is allowed here: MATCH ... RETURN ...",
        )
    for place, token in enumerate(tokens):
        if token.kind == "mark" and token.text == ";" and place < len(tokens) - 1:
            raise QueryError("one statement at a time", position=token.start)
        if token.kind == "word" and not _is_name(tokens, place):
            _check_word(tokens, place, dialect)


def _check_word(tokens: list[_Token], place: int, dialect: Dialect) -> None:
    token = tokens[place]
    word = token.text.upper()
    if word == "CALL":
        _check_call(tokens, place, dialect)
    elif word in _WRITES:
        raise QueryError(
            f"{word} is not allowed: queries only read",
            position=token.start,
            hint="runs and graphs are written by compare and import",
        )
    elif word in _REACHES_OUT:
        raise QueryError(
            f"{word} is not allowed: queries reach no files, network or extensions",
            position=token.start,
        )


def _check_call(tokens: list[_Token], place: int, dialect: Dialect) -> None:
    following = tokens[place + 1 :]
    head = following[0].text if following else ""
    if dialect is Dialect.NEO4J and head in ("{", "("):
        closing = _matching(following, 0)
        if any(token.text.upper() == "TRANSACTIONS" for token in following[closing : closing + 8]):
            raise QueryError(
                "CALL IN TRANSACTIONS is not allowed: queries only read",
                position=tokens[place].start,
            )
        return
    name = ""
    for token in following:
        if token.kind not in ("word", "quoted") and token.text != ".":
            break
        name += token.text.strip("`")
    allowed = _NEO4J_CALLS if dialect is Dialect.NEO4J else _EMBEDDED_CALLS
    called = len(following) > 1 and name.lower() in allowed
    if called and dialect is Dialect.EMBEDDED:
        called = following[1].text == "("
    if not called:
        raise QueryError(
            f"CALL {name or head} is not allowed",
            position=tokens[place].start,
            hint="allowed: " + ", ".join(sorted(allowed)),
        )


def _matching(tokens: list[_Token], place: int) -> int:
    """The place after the bracket group at *place* and a ``{...}`` that follows it."""
    depth = 0
    while place < len(tokens):
        if tokens[place].text in ("(", "{"):
            depth += 1
        elif tokens[place].text in (")", "}"):
            depth -= 1
            if depth == 0:
                after = tokens[place + 1].text if place + 1 < len(tokens) else ""
                if tokens[place].text == ")" and after == "{":
                    place += 1
                    continue
                return place + 1
        place += 1
    return place


def _is_name(tokens: list[_Token], place: int) -> bool:
    """True for a variable in brackets, a label, type, property, parameter or map key.

    Not for an alias after AS or in WITH: there a clause word must be in backticks.
    """
    before = tokens[place - 1].text if place else ""
    after = tokens[place + 1].text if place + 1 < len(tokens) else ""
    if before in ("(", "[", ".", "$", ":", "|", "&", "!"):
        return True
    return after == ":" and before in ("{", ",")


def _tokens(cypher: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(cypher):
        kind = match.lastgroup or "mark"
        if kind == "open":
            raise QueryError(f"{match.group()} is not closed", position=match.start())
        if kind not in ("space", "comment"):
            yield _Token(kind, match.group(), match.start())
