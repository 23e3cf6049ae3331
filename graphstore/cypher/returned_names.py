"""What a query's answer is in every store alike: its columns are called as openCypher does, by what
the query wrote, and lists of ``collect`` have an order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from graphstore.contract import QueryResult
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


def with_lists_in_order(cypher: str, answer: QueryResult) -> QueryResult:
    """*answer* with the lists that ``collect`` made in ascending order: no engine promises any.

    They are as they came where rows were ordered before: that is the order of who asks.
    """
    parts = tokens(cypher)
    calls = list(_collects(parts))
    is_ordered = any(part.word == "ORDER" for part in parts[: calls[-1][0]]) if calls else True
    items = list(_returned(parts))
    if is_ordered or len(items) != len(answer.columns):
        return answer
    names = {parts[end + 1].text for _, end in calls if _word(parts, end) == "AS"}
    places = {place for place, item in enumerate(items) if _is_collected(item, names)}
    rows = tuple(
        tuple(_sorted(value) if place in places else value for place, value in enumerate(row))
        for row in answer.rows
    )
    return replace(answer, rows=rows)


def _collects(parts: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Where calls of ``collect`` begin, and what is behind them."""
    for place, (name, bracket) in enumerate(pairwise(parts)):
        if name.word == "COLLECT" and bracket.text == "(":
            depths = accumulate(map(_step, parts[place + 1 :]))
            yield place, next((place + 2 + at for at, depth in enumerate(depths) if not depth), 0)


def _is_collected(item: Sequence[Token], names: Collection[str]) -> bool:
    """Whether a returned item is a call of ``collect``, or a variable with one of these names."""
    if len(item) == 1:
        return item[0].text in names
    return any(begin == 0 and _word(item, end) in ("AS", "") for begin, end in _collects(item))


def _word(parts: Sequence[Token], place: int) -> str:
    """The word at a place, empty behind the end."""
    return parts[place].word or parts[place].text if place < len(parts) else ""


def _sorted(value: object) -> object:
    if not isinstance(value, list):
        return value
    return sorted(value, key=_rank)


def _rank(value: object) -> tuple[int, float, str]:
    """Numbers come first, by their size; other values by their text."""
    if isinstance(value, int | float):
        return (0, value, "")
    return (1, 0.0, value if isinstance(value, str) else repr(value))


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
