"""Cypher as the embedded engine spells it: what it does not read, or reads otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from graphstore.cypher.text import Token, tokens

_CLAUSES = frozenset(("MATCH", "OPTIONAL", "WHERE", "WITH", "RETURN", "UNION", "UNWIND", "CALL"))
_Ends: TypeAlias = Mapping[int, int]
"""Where each bracket that opens is closed."""
_Rewritten: TypeAlias = tuple[int, str] | None
"""The last token that is replaced, and what takes the place."""


_FUNCTIONS = {"TYPE": "label", "SPLIT": "string_split"}
_ENDS_OF_LISTS = {"HEAD": 0, "LAST": -1}


def for_engine(cypher: str) -> str:
    """A query as the engine must be given it to mean the same."""
    return with_engine_places(with_lists(with_names(with_bounds(cypher))))


def with_names(cypher: str) -> str:
    """*cypher* with the engine's names of functions, ``MATCH`` in every subquery, and quotes about
    the property ``in``, which it takes for the operator."""
    return _rewritten(cypher, _name)


def _name(cypher: str, parts: Sequence[Token], ends: _Ends, at: int) -> _Rewritten:
    token = parts[at]
    before = parts[at - 1].text if at else ""
    follows = parts[at + 1].text if at + 1 < len(parts) else ""
    if token.word == "IN" and (before == "." or (before in ("{", ",") and follows == ":")):
        return at, f"`{token.text}`"
    if before in (".", ":", "$"):
        return None
    opens, end = at + 1, ends.get(at + 1)
    if end is None:
        return None
    if token.word in ("EXISTS", "COUNT") and follows == "{" and parts[at + 2].text == "(":
        return opens, f"{token.text} {{ MATCH"
    if follows != "(" or end == opens + 1:
        return None
    inner = with_names(cypher[parts[opens].start + 1 : parts[end].start])
    if token.word == "LABELS":
        return end, f"[label({inner})]"
    if token.word in _FUNCTIONS:
        return end, f"{_FUNCTIONS[token.word]}({inner})"
    if token.word in _ENDS_OF_LISTS:
        is_plain = all(one.name or one.text == "." for one in parts[opens + 1 : end])
        return end, f"{inner if is_plain else f'({inner})'}[{_ENDS_OF_LISTS[token.word]}]"
    if token.word == "ROUND" and "," not in _marks(parts, ends, opens, end):
        return end, f"{token.text}({inner}, 0)"
    return None


def with_lists(cypher: str) -> str:
    """*cypher* with ``[x IN list WHERE condition | value]`` as the functions of the engine."""
    return _rewritten(cypher, _comprehension)


def _comprehension(cypher: str, parts: Sequence[Token], ends: _Ends, at: int) -> _Rewritten:
    end = ends.get(at, 0)
    if parts[at].text != "[" or end < at + 4 or parts[at + 2].word != "IN" or _takes_out(parts, at):
        return None
    marks = _marks(parts, ends, at, end)
    if "," in marks or not parts[at + 1].name:
        return None
    where, bar = marks.get("WHERE"), marks.get("|")
    variable = parts[at + 1].text

    def text(first: int, last: int) -> str:
        """What stands between two tokens."""
        start = parts[first].start + len(parts[first].text)
        return with_lists(cypher[start : parts[last].start]).strip()

    values = text(at + 2, where or bar or end)
    if where is not None:
        values = f"list_filter({values}, {variable} -> {text(where, bar or end)})"
    if bar is not None:
        values = f"list_transform({values}, {variable} -> {text(bar, end)})"
    return end, values


def _marks(parts: Sequence[Token], ends: _Ends, at: int, end: int) -> dict[str, int]:
    """The commas, bars and words between two brackets and in no others, with their last places."""
    marks = {}
    place = at + 1
    while place < end:
        marks[parts[place].word or parts[place].text] = place
        place = ends.get(place, place) + 1
    return marks


def _rewritten(
    cypher: str, rewrite: Callable[[str, Sequence[Token], _Ends, int], _Rewritten]
) -> str:
    """*cypher* with what *rewrite* gives for some of its tokens."""
    parts = tokens(cypher)
    ends = _closing(parts)
    pieces: list[str] = []
    done = skip = 0
    for at, token in enumerate(parts):
        rewritten = rewrite(cypher, parts, ends, at) if at >= skip else None
        if rewritten is not None:
            last, text = rewritten
            pieces += [cypher[done : token.start], text]
            done, skip = parts[last].start + len(parts[last].text), last + 1
    return "".join([*pieces, cypher[done:]])


def with_bounds(cypher: str) -> str:
    """*cypher* with ``SKIP 0`` behind an ORDER BY of a WITH that has no bound: the engine reads
    none without."""
    parts = tokens(cypher)
    clauses = [
        at
        for at, (before, token) in enumerate(zip([None, *parts], parts, strict=False))
        if token.word in _CLAUSES and (before is None or before.text != ".")
    ]
    for at, end in reversed(list(pairwise([*clauses, len(parts)]))):
        words = {token.word for token in parts[at:end]}
        if parts[at].word == "WITH" and "ORDER" in words and not words & {"SKIP", "LIMIT"}:
            last = parts[end - 1]
            place = last.start + len(last.text)
            cypher = f"{cypher[:place]} SKIP 0{cypher[place:]}"
    return cypher


# Places in lists count from 0 in Cypher; in the engine from 1, and an end is included.

_BEFORE_LISTS = frozenset(
    (
        *("AND", "BY", "CASE", "CONTAINS", "DISTINCT", "ELSE", "IN", "NOT", "ON", "OR"),
        *("RETURN", "SET", "THEN", "UNWIND", "WHEN", "WHERE", "WITH", "XOR", "YIELD"),
    )
)
"""Words behind which a bracket opens a list; behind names it takes something out of one."""


def with_engine_places(cypher: str) -> str:
    """*cypher* with the places in lists (``o.ids[0]``, ``o.ids[1..3]``) as the engine counts; of a
    property, a place that is not there is null."""
    return _rewritten(cypher, _engine_place)


def _engine_place(cypher: str, parts: Sequence[Token], ends: _Ends, at: int) -> _Rewritten:
    is_first = at == 0 or parts[at - 1].text not in (".", "$")
    if (
        is_first
        and [one.text for one in parts[at + 1 : at + 4 : 2]] == [".", "["]
        and at + 3 in ends
    ):
        end = ends[at + 3]
        inner = cypher[parts[at + 3].start + 1 : parts[end].start].strip()
        if parts[at].name and inner.removeprefix("-").isdecimal():
            place = inner if inner.startswith("-") else int(inner) + 1
            owner = cypher[parts[at].start : parts[at + 3].start]
            return end, f"coalesce(nullif({owner}[{place}:{place}], []), [null])[1]"
    if parts[at].text != "[" or at not in ends or not _takes_out(parts, at):
        return None
    inner_parts = parts[at + 1 : ends[at]]
    if not inner_parts or _is_other(inner_parts):
        return None
    return ends[at], f"[{_place(cypher, inner_parts, parts[ends[at]].start)}]"


def _closing(parts: Sequence[Token]) -> _Ends:
    opened, ends = list[int](), dict[int, int]()
    for at, token in enumerate(parts):
        if token.kind != "mark":
            continue
        if token.text in "([{":
            opened.append(at)
        elif token.text in ")]}" and opened:
            ends[opened.pop()] = at
    return ends


def _takes_out(parts: Sequence[Token], at: int) -> bool:
    """True if the bracket at *at* takes something out of what stands before it."""
    if at == 0:
        return False
    before, further = parts[at - 1], parts[at - 2].text if at > 1 else ""
    if before.kind == "word":
        return further in (".", "$") or before.word not in _BEFORE_LISTS
    return before.kind == "quoted" or before.text in (")", "]")


def _is_other(inner: Sequence[Token]) -> bool:
    """True of the key of a map, and of the engine's own ``[1:3]``, which is left to it."""
    return inner[0].kind == "text" or any(token.text == ":" for token in inner)


def _place(cypher: str, inner: Sequence[Token], end: int) -> str:
    """What stands in the brackets: a place, or ``first..end`` of which the end is not taken."""
    dots = [
        at
        for at, (one, other) in enumerate(pairwise(inner))
        if one.text == other.text == "." and other.start == one.start + 1
    ]
    start = inner[0].start
    if not dots:
        return _shifted(cypher[start:end], up=True)
    middle = inner[dots[0]].start
    first, last = cypher[start:middle], cypher[middle + 2 : end]
    return f"{_shifted(first, up=True)}..{_shifted(last, up=False)}"


def _shifted(place: str, *, up: bool) -> str:
    """A place from the start is one more (*up*); the end of a slice, from the end, one less."""
    text = with_engine_places(place).strip()
    if text.isdecimal():
        return str(int(text) + 1) if up else text
    if text.removeprefix("-").strip().isdecimal():
        return text if up else f"-{int(text.removeprefix('-')) + 1}"
    if not text:
        return ""
    from_end, from_start = (text, f"({text}) + 1") if up else (f"({text}) - 1", text)
    return f"CASE WHEN ({text}) < 0 THEN {from_end} ELSE {from_start} END"
