"""Places in lists count from 0 in Cypher; in the engine from 1, and an end is included."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graphstore.cypher.text import Token, tokens

_BEFORE_LISTS = frozenset(
    (
        *("AND", "BY", "CASE", "CONTAINS", "DISTINCT", "ELSE", "IN", "NOT", "ON", "OR"),
        *("RETURN", "SET", "THEN", "UNWIND", "WHEN", "WHERE", "WITH", "XOR", "YIELD"),
    )
)
"""Words behind which a bracket opens a list; behind names it takes something out of one."""


def with_engine_places(cypher: str) -> str:
    """*cypher* with the places in lists (``o.ids[0]``, ``o.ids[1..3]``) as the engine counts."""
    parts = tokens(cypher)
    ends = _closing(parts)
    pieces: list[str] = []
    done = skip = 0
    for at, token in enumerate(parts):
        if at < skip or at not in ends or not _takes_out(parts, at):
            continue
        end = ends[at]
        inner = parts[at + 1 : end]
        if not inner or _is_other(inner):
            continue
        pieces += [cypher[done : token.start + 1], _place(cypher, inner, parts[end].start)]
        done, skip = parts[end].start, end
    return "".join([*pieces, cypher[done:]])


def _closing(parts: Sequence[Token]) -> dict[int, int]:
    """Where each square bracket that opens is closed."""
    opened, ends = list[int](), dict[int, int]()
    for at, token in enumerate(parts):
        if token.kind == "mark" and token.text == "[":
            opened.append(at)
        elif token.kind == "mark" and token.text == "]" and opened:
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
