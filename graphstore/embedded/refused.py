"""Defects of the engine: what it counts wrongly or dies of is refused, not tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TypeAlias

from graphstore.cypher.text import Token, hop_bounds, is_name, items, tokens
from graphstore.errors import QueryError

_AGGREGATES = frozenset(("COUNT", "COLLECT", "SUM", "AVG", "MIN", "MAX"))


def check_aggregates(cypher: str) -> None:
    """Return if no WITH or RETURN groups rows and has aggregates with and without DISTINCT.

    The engine then gives 0 or null for those without.

    Raises:
        QueryError: one does.
    """
    query_tokens = tokens(cypher)
    for place, token in enumerate(query_tokens):
        before = query_tokens[place - 1] if place else None
        if token.word in ("WITH", "RETURN") and not is_name(before):
            _check_items(list(items(query_tokens, place + 1)))


def _check_items(parts: list[list[Token]]) -> None:
    plain: Token | None = None
    distinct = groups = False
    for item in parts:
        calls = [at for at in range(len(item) - 1) if _is_aggregate(item, at)]
        groups = groups or not calls
        for at in calls:
            if [token.word for token in item[at + 2 : at + 3]] == ["DISTINCT"]:
                distinct = True
            else:
                plain = item[at]
    if groups and distinct and plain is not None:
        raise QueryError(
            f"the embedded engine gets {plain.text}() wrong beside an aggregate with DISTINCT",
            position=plain.start,
            hint="take the rows WITH DISTINCT first, or ask twice",
        )


def _is_aggregate(item: list[Token], at: int) -> bool:
    before = item[at - 1].text if at else ""
    return item[at].word in _AGGREGATES and item[at + 1].text == "(" and before != "."


_PATHS = frozenset(("SHORTESTPATH", "ALLSHORTESTPATHS"))


def check_patterns(cypher: str) -> None:
    """Return if all nodes of *cypher* have one label, and no path is asked for in Neo4j's way.

    Raises:
        QueryError: one has several, of which the engine would take either; or a path is.
    """
    query_tokens = tokens(cypher)
    for at, token in enumerate(query_tokens):
        words = query_tokens[at : at + 4]
        if [word.text for word in words[::2]] == [":", ":"] and len(words) == 4 and words[3].name:
            hint = "of which of two it is, asks `|`: (n:Op|Tensor)"
            raise QueryError("a node has one label", position=words[2].start, hint=hint)
        if token.word in _PATHS and [word.text for word in words[1:2]] == ["("]:
            hint = "write p = (a)-[:FEEDS* SHORTEST 1..65535]->(b), or ALL SHORTEST for all of them"
            message = f"the embedded engine has no {token.text}()"
            raise QueryError(message, position=token.start, hint=hint)


def check_lists(cypher: str, values: Mapping[str, object]) -> None:
    """Return if no parameter of *cypher* that stands after IN is null.

    The engine would crash, and the process with it.

    Raises:
        QueryError: one is.
    """
    query_tokens = [token for token in tokens(cypher) if token.text not in ("(", ")")]
    for before, sign, name in zip(query_tokens, query_tokens[1:], query_tokens[2:], strict=False):
        if before.word == "IN" and sign.text == "$" and values.get(name.name, ()) is None:
            raise QueryError(f"${name.name} after IN is a list, not null", position=sign.start)


MAX_HOPS = 65535
"""Its hop counter has 16 bits and wraps without a word; its default limit is 30."""
_FOLLOWED = MAX_HOPS - 1
"""The hops it follows when asked for the most."""


def check_hops(cypher: str) -> None:
    """Return if no way in *cypher* is asked for with more hops than the engine counts.

    Raises:
        QueryError: one is; the engine would count modulo 65536 and leave ops out.
    """
    for bound in hop_bounds(tokens(cypher)):
        if bound.most is not None and bound.most > MAX_HOPS:
            raise QueryError(
                f"the embedded engine counts at most {MAX_HOPS} hops, not {bound.most}",
                position=bound.start,
                hint="write 1..65535; trace, between and the named queries have no limit",
            )


def hop_notes(cypher: str, depths: Callable[[], Iterable[tuple[str, int]]]) -> tuple[str, ...]:
    """Sentences on the graphs where *cypher* may have been cut by the engine's limit.

    *depths* gives the graphs it saw with the most hops of a way in each.
    """
    bounds = [bound.most for bound in hop_bounds(tokens(cypher))]
    if not any(bound is None or bound > _FOLLOWED for bound in bounds):
        return ()
    return tuple(
        f"{graph} has ways of up to {hops} hops, the embedded engine follows {_FOLLOWED}: "
        "ops farther off are missing; trace, between and the named queries have no limit"
        for graph, hops in depths()
        if hops > _FOLLOWED
    )


_LEAST, _MOST = -(2**63), 2**63 - 1

_Kind: TypeAlias = str | tuple["_Kind", ...] | dict[str, "_Kind"] | None
"""The name of a type, a list's one type in a tuple, the types of a map; None: any."""


def check_kinds(values: Mapping[str, object]) -> None:
    """Return if the engine takes *values* as they are.

    It has one type for all values of a list: of a list of maps it takes the keys of the first one
    for those of all, and lists of several types it makes texts.

    Raises:
        QueryError: one would be another; says which and why.
    """
    for name, value in values.items():
        try:
            if value is None or _is_known(_kind_of(value)):
                continue
            error = _KindError("a list without values, and a null in a map, have no type there")
        except _KindError as fault:
            error = fault
        message = f"the parameter ${name} is nothing the embedded engine takes: {error}"
        raise QueryError(message, hint="write it into the query, or ask otherwise")


class _KindError(Exception):
    """Why the engine does not take a value."""


def _kind_of(value: object) -> _Kind:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and not _LEAST <= value <= _MOST:
            raise _KindError("a whole number has 64 bits")
        return "number"
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise _KindError("half of a surrogate pair is no text")
        return "text"
    if isinstance(value, list | tuple):
        return (reduce(_both, map(_kind_of, value), None),)
    if isinstance(value, dict):
        return {str(key): _kind_of(element) for key, element in value.items()}
    return None if value is None else type(value).__name__


def _both(one: _Kind, other: _Kind) -> _Kind:
    """The type that values of two types have in one list."""
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, tuple) and isinstance(other, tuple):
        return (_both(one[0], other[0]),)
    if isinstance(one, dict) and isinstance(other, dict) and [*one] == [*other]:
        return {key: _both(one[key], other[key]) for key in one}
    if one != other or isinstance(one, dict):
        raise _KindError("the values of a list are of one type, and maps in it have the same keys")
    return one


def _is_known(kind: _Kind) -> bool:
    if isinstance(kind, tuple):
        return _is_known(kind[0])
    if isinstance(kind, dict):
        return all(map(_is_known, kind.values()))
    return kind is not None
