"""Refuse Cypher that writes, or reaches files, the network or procedures.

The engines are opened read-only too; this stops what they would still allow (a COPY to a
file, LOAD CSV from an address) and says why before anything runs.
"""

from __future__ import annotations

from graphstore.cypher.query_file import Dialect
from graphstore.cypher.text import Token, decoded, tokens
from graphstore.errors import QueryError

_WRITES = frozenset(
    (
        *("CREATE", "INSERT", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE"),
        *("FOREACH", "DROP"),
    )
)
_REACHES_OUT = frozenset(
    ("LOAD", "COPY", "EXPORT", "IMPORT", "ATTACH", "INSTALL", "UNINSTALL", "USE", "TERMINATE")
)
_PREFIXES = frozenset(("EXPLAIN", "PROFILE"))
_STARTS = frozenset(("MATCH", "OPTIONAL", "RETURN", "WITH", "UNWIND", "CALL"))
_BEFORE_A_NAME = frozenset(("(", "[", ".", ":", "|", "&"))
_BEFORE_A_LABEL = frozenset(("(", ":", "|", "&", "!"))
"""Before a ``!`` that says "not" of a label. ladybug has one behind numbers, for factorials."""
_AFTER_A_NAME = frozenset((".", ",", ")", "]", "}", "=", "<", ">", "*", "/", "%", "^", ";", ":"))
"""No clause goes on with one of these, so the word before is somebody's name."""
_GO_ON = frozenset(
    (
        *("RETURN", "WITH", "MATCH", "OPTIONAL", "UNWIND", "WHERE", "UNION", "CALL"),
        *("AS", "ASC", "DESC", "AND", "OR", "XOR", "IN", "IS", "CONTAINS", "STARTS", "ENDS"),
        *("THEN", "ELSE", "END", "WHEN"),
    )
)
"""Words after which a query goes on; no file or address a clause takes is named so."""

_EMBEDDED_CALLS = frozenset(
    ("show_tables", "table_info", "db_version", "show_connection", "show_functions")
)
_NEO4J_CALLS = frozenset(
    (
        *("db.labels", "db.relationshipTypes", "db.propertyKeys", "db.schema.visualization"),
        *("db.schema.nodeTypeProperties", "db.schema.relTypeProperties", "dbms.components"),
        "db.index.fulltext.queryNodes",
    )
)
_NAMESPACES = frozenset(
    ("date", "datetime", "time", "localtime", "localdatetime", "duration", "point", "vector")
)
"""Of Neo4j's own functions; those of plugins may do anything."""


def check_read_only(cypher: str, dialect: Dialect) -> None:
    """Return if *cypher* is one statement that only reads the store.

    Raises:
        QueryError: it does more, is empty, or a quote or comment in it is not closed.
    """
    _check(tokens(cypher), dialect)
    if dialect is Dialect.NEO4J:
        for text, places in decoded(cypher):
            try:
                _check(tokens(text), dialect)
            except QueryError as error:
                at = None if error.position is None else places[error.position]
                raise QueryError(error.what, position=at, hint=error.hint) from None


def _check(parts: list[Token], dialect: Dialect) -> None:
    if not parts:
        raise QueryError("the query is empty")
    first = parts[min(_after_prefix(parts, dialect), len(parts) - 1)]
    if first.word not in _STARTS:
        raise QueryError(
            f"a query does not start with {first.text!r}",
            position=first.start,
            hint="only reading is allowed here: MATCH ... RETURN ...",
        )
    for place, token in enumerate(parts):
        if token.text == ";" and place < len(parts) - 1:
            raise QueryError("one statement at a time", position=token.start)
        if token.word and not _is_name(parts, place):
            _check_word(parts, place, dialect)
        if token.text == "}":
            _check_transactions(parts, place)
        if token.text == "(":
            _check_function(parts, place, dialect)


def _after_prefix(parts: list[Token], dialect: Dialect) -> int:
    """The place after EXPLAIN or PROFILE and, for Neo4j, ``CYPHER 5 runtime=slotted``."""
    place = 0
    while place < len(parts):
        if parts[place].word in _PREFIXES:
            place += 1
        elif parts[place].word == "CYPHER" and dialect is Dialect.NEO4J:
            place += 1
            while place < len(parts) and parts[place].kind == "number":
                place += 1
            while [token.text for token in parts[place + 1 : place + 2]] == ["="]:
                place += 3
        else:
            break
    return place


def _check_word(parts: list[Token], place: int, dialect: Dialect) -> None:
    token = parts[place]
    if token.word == "CALL":
        _check_call(parts, place, dialect)
    elif token.word in _WRITES:
        raise QueryError(
            f"{token.word} is not allowed: queries only read",
            position=token.start,
            hint="runs and graphs are written by compare and import",
        )
    elif token.word == "SHOW" and dialect is Dialect.NEO4J:
        # behind Cypher 25's NEXT it tells settings and what others ask
        raise QueryError("SHOW is not allowed: queries ask the graph", position=token.start)
    elif token.word in _REACHES_OUT:
        raise QueryError(
            f"{token.word} is not allowed: queries reach no files, network or extensions",
            position=token.start,
        )


def _check_call(parts: list[Token], place: int, dialect: Dialect) -> None:
    following = parts[place + 1 :]
    head = following[0].text if following else ""
    if dialect is Dialect.NEO4J and head in ("{", "("):
        return
    name, length = "", 0
    for token in following:
        # a name and a dot take turns
        expected = token.kind in ("word", "quoted") if length % 2 == 0 else token.text == "."
        if not expected:
            break
        name += token.name or "."
        length += 1
    allowed = _NEO4J_CALLS if dialect is Dialect.NEO4J else _EMBEDDED_CALLS
    # the server tells cases apart; it says so itself where one is wrong
    called = name.lower() in {one.lower() for one in allowed}
    if called and dialect is Dialect.EMBEDDED:
        called = [token.text for token in following[length : length + 1]] == ["("]
    if not called:
        raise QueryError(
            f"CALL {name or head} is not allowed",
            position=parts[place].start,
            hint="allowed: " + ", ".join(sorted(allowed)),
        )


def _check_transactions(parts: list[Token], place: int) -> None:
    """Refuse ``{...} IN [n CONCURRENT] TRANSACTIONS``."""
    following = [token.word for token in parts[place + 1 :]]
    if following[:1] != ["IN"]:
        return
    for word in following:
        if word in _STARTS:
            return
        if word in ("TRANSACTION", "TRANSACTIONS"):
            raise QueryError(
                "CALL IN TRANSACTIONS is not allowed: queries only read",
                position=parts[place].start,
            )


def _check_function(parts: list[Token], place: int, dialect: Dialect) -> None:
    """Refuse calls of functions with a dot in their name, but for Neo4j's own."""
    first = place
    while first > 1 and parts[first - 1].name and parts[first - 2].text == ".":
        first -= 2
    if first == place or not parts[first - 1].name:
        return
    root = parts[first - 1]
    if first > 1 and parts[first - 2].word == "CALL":
        return  # checked there
    if dialect is Dialect.NEO4J and root.name.lower() in _NAMESPACES:
        return
    name = "".join(token.name or "." for token in parts[first - 1 : place])
    raise QueryError(f"the function {name} is not allowed", position=root.start)


def _is_name(parts: list[Token], place: int) -> bool:
    """True for a variable, label, type, property, parameter, alias or map key.

    What stands beside a clause word tells. Where a variable is named like the start of a
    clause (``DELETE return``), a write may pass: the engine, opened for reading, refuses it.
    """
    before = parts[place - 1] if place else None
    after = parts[place + 1] if place + 1 < len(parts) else None
    if before is None:
        return False
    if before.kind == "mark" and before.text in _BEFORE_A_NAME:
        return True
    if before.text == "!" and place > 1 and parts[place - 2].text in _BEFORE_A_LABEL:
        return True
    if before.text == "$" and _is_parameter(parts, place):
        return True
    if after is None or (after.kind == "mark" and after.text in _AFTER_A_NAME):
        return True
    word, following = parts[place].word, parts[place + 2 : place + 3]
    if after.word == "ORDER":
        return [token.word for token in following] == ["BY"]
    if after.word in ("LIMIT", "SKIP"):
        return any(token.kind == "number" or token.text == "$" for token in following)
    if word == "USE" or (word == "LOAD" and after.word == "WITH"):
        return False
    if word == "CALL" and [token.text for token in following] == ["."]:
        return False  # a procedure of a name space named like a clause
    return after.word in _GO_ON


def _is_parameter(parts: list[Token], place: int) -> bool:
    """True for a word after a ``$``, but for one that ends a name: ``WITH x$ LOAD ...``."""
    sign = parts[place - 1].start
    if parts[place].start == sign + 1 or place < 2:
        return True
    earlier = parts[place - 2]
    is_part = earlier.name or earlier.text == "$"
    return not (is_part and earlier.start + len(earlier.text) == sign)
