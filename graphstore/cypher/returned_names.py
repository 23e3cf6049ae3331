"""How a query's answer calls its columns: as openCypher does, by what the query wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphstore.cypher.text import Token, tokens

_ENDS = frozenset({"ORDER", "SKIP", "OFFSET", "LIMIT", "UNION"})


def returned_names(cypher: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of the *columns* of an answer; the embedded engine calls some by its own functions.

    A variable and what is named by AS keep their names; anything else is called by its text in
    *cypher*: ``RETURN count(o)`` has a column ``count(o)``, and no ``COUNT(o._ID)``.
    """
    items = list(_returned(tokens(cypher)))
    if len(items) != len(columns):  # RETURN *
        return tuple(columns)
    return tuple(
        column if _is_named(item) else cypher[item[0].start : _end(item[-1])]
        for column, item in zip(columns, items, strict=True)
    )


def _returned(parts: Sequence[Token]) -> Iterator[list[Token]]:
    """The items of the first RETURN that is in no subquery; that of a UNION gives the names."""
    depth, item, begun = 0, list[Token](), False
    for before, token in zip([None, *parts], parts, strict=False):
        depth += _step(token)
        is_word = depth == 0 and not _is_name(before)
        if not begun:
            begun = is_word and token.word == "RETURN"
        elif is_word and item and (token.word in _ENDS or token.text == ";"):
            break
        elif depth == 0 and token.text == ",":
            yield item
            item = []
        elif item or token.word != "DISTINCT":
            item.append(token)
    if item:
        yield item


def _step(token: Token) -> int:
    if token.kind != "mark":
        return 0
    return (token.text in "([{") - (token.text in ")]}")


def _is_name(before: Token | None) -> bool:
    """Whether a word behind the token *before* is somebody's name, whatever it says."""
    return before is not None and (before.text in (".", ":", "$", ",") or before.word == "AS")


def _is_named(item: Sequence[Token]) -> bool:
    """Whether the query itself names it: a variable, or by AS."""
    return len(item) == 1 or item[-2].word == "AS"


def _end(token: Token) -> int:
    return token.start + len(token.text)
