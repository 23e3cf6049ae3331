"""What a query's answer is in every store alike: its columns are called as openCypher does, by what
the query wrote, and lists of ``collect`` have an order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from graphstore.contract import QueryResult
from graphstore.cypher.text import Token, is_name, items, tokens


def returned_names(cypher: str, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of the *columns* of an answer; the embedded engine calls some by its own functions.

    A variable and what is named by AS keep their names; anything else is called by its text in
    *cypher*: ``RETURN count(o)`` has a column ``count(o)``, and no ``COUNT(o._ID)``.
    """
    returned = list(_returned(tokens(cypher)))
    if len(returned) != len(columns):  # RETURN *
        return tuple(columns)
    return tuple(
        column if _is_named(item) else cypher[item[0].start : _end(item[-1])]
        for column, item in zip(columns, returned, strict=True)
    )


def with_lists_in_order(cypher: str, answer: QueryResult) -> QueryResult:
    """*answer* with the lists that ``collect`` made in ascending order: no engine promises any.

    They are as they came where rows were ordered before: that is the order of who asks.
    """
    parts = tokens(cypher)
    calls = list(_collects(parts))
    is_ordered = any(part.word == "ORDER" for part in parts[: calls[-1][0]]) if calls else True
    returned = list(_returned(parts))
    if is_ordered or len(returned) != len(answer.columns):
        return answer
    names = {parts[end + 1].text for _, end in calls if _word(parts, end) == "AS"}
    places = {place for place, item in enumerate(returned) if _is_collected(item, names)}
    rows = tuple(
        tuple(_sorted(value) if place in places else value for place, value in enumerate(row))
        for row in answer.rows
    )
    return replace(answer, rows=rows)


def _collects(parts: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Where calls of ``collect`` begin, and what is behind them."""
    for place, (name, bracket) in enumerate(pairwise(parts)):
        if name.word == "COLLECT" and bracket.text == "(":
            depths = accumulate(part.step for part in parts[place + 1 :])
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
    depth = 0
    for place, token in enumerate(parts):
        depth += token.step
        before = parts[place - 1] if place else None
        if depth == 0 and token.word == "RETURN" and not is_name(before):
            yield from items(parts, place + 1)
            return


def _is_named(item: Sequence[Token]) -> bool:
    """Whether the query itself names it: a variable, or by AS."""
    return len(item) == 1 or item[-2].word == "AS"


def _end(token: Token) -> int:
    return token.start + len(token.text)
