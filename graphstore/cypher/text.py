"""The words of a Cypher text: enough to see what a query would do, without its grammar.

Where the engines see a word, so do these functions; where in doubt, they see more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

from graphstore.errors import QueryError

# A line comment ends at \r too: Neo4j reads on behind it.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<comment>//[^\n\r]*|/\*.*?\*/)
      | (?P<text>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<open>/\*|'|"|`)
      | (?P<word>[^\W\d]\w*)
      | (?P<number>0[xX][\da-fA-F]+|0o[0-7]+|\d[\d_]*(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:(?P<pair>\\)|u(?P<code>[0-9a-fA-F]{4}))")
_BARE_ESCAPE = re.compile(r"\\u(?P<code>[0-9a-fA-F]{4})")
_HALF = re.compile("[\ud800-\udfff]")
_MOST = 100_000
"""Words and marks a text may have; the engines take seconds over more, and their stacks end."""
_DEEPEST = 50
"""Brackets within brackets; over 300 of them Neo4j thinks for minutes, whatever its time limit."""
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(?:\s+LOGICAL\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text; ``kind`` is text, quoted, word, number or mark."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """The upper-case word, empty if it is none."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """What a word, number or back-quoted name stands for, empty if it is none."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind in ("word", "number") else ""

    @property
    def step(self) -> int:
        """1 of a bracket that opens, -1 of one that closes, else 0."""
        return 0 if self.kind != "mark" else (self.text in "([{") - (self.text in ")]}")


@dataclass(frozen=True, slots=True)
class HopBound:
    """The bound of a way of any length, such as the ``1..65535`` of ``[:FEEDS*1..65535]``.

    ``most`` is None if it has no upper end; ``start`` is the place of its star.
    """

    most: int | None
    start: int


def tokens(cypher: str) -> list[Token]:
    """The tokens of *cypher* without space and comments.

    Raises:
        QueryError: a quote or comment is not closed, there is an invisible character or half
            of one, or the text is too long.
    """
    return list(_all_tokens(cypher))


@lru_cache(maxsize=4)  # each check of a text asks for them
def _all_tokens(cypher: str) -> tuple[Token, ...]:
    half = _HALF.search(cypher)
    if half is not None:
        raise QueryError(
            f"the query has half of a character, U+{ord(half[0]):04X}", position=half.start()
        )
    parts = tuple(islice(_tokens(cypher), _MOST + 1))
    if len(parts) > _MOST:
        raise QueryError(
            f"the query has more than {_MOST} words and signs",
            hint="give long lists as parameters",
        )
    _check_depth(parts)
    return parts


def _check_depth(parts: Iterable[Token]) -> None:
    depth = 0
    for token in parts:
        depth += token.step
        if depth > _DEEPEST:
            raise QueryError(f"brackets nested deeper than {_DEEPEST}", position=token.start)


_ENDS = frozenset(
    (
        *("MATCH", "OPTIONAL", "WHERE", "WITH", "RETURN", "ORDER", "SKIP", "OFFSET", "LIMIT"),
        *("UNION", "UNWIND", "CALL"),
    )
)


def items(parts: Sequence[Token], place: int) -> Iterator[list[Token]]:
    """What stands between the commas of a WITH or RETURN that is just before *place*, without
    DISTINCT."""
    item: list[Token] = []
    depth = 0
    for before, token in pairwise(parts[place - 1 :]):
        depth += token.step
        is_end = token.word in _ENDS and item and not is_name(before)
        if depth < 0 or (depth == 0 and (is_end or token.text == ";")):
            break
        if depth == 0 and token.text == ",":
            yield item
            item = []
        elif item or token.word != "DISTINCT":
            item.append(token)
    if item:
        yield item


def is_name(before: Token | None) -> bool:
    """Whether a word behind the token *before* is somebody's name, whatever it says."""
    return before is not None and (before.text in (".", ":", "$", ",") or before.word == "AS")


def parameters(parts: list[Token]) -> dict[str, int]:
    """The names of the parameters a text uses, each with its first position."""
    names: dict[str, int] = {}
    for before, token in pairwise(parts):
        if before.text == "$" and token.name:
            names.setdefault(token.name, before.start)
    return names


def hop_bounds(parts: list[Token]) -> list[HopBound]:
    """The ways of any length in a text, as the embedded engine writes them."""
    bounds = []
    brackets: list[bool] = []  # the open ones, True for those of a relationship
    for place, token in enumerate(parts):
        if token.kind != "mark":
            continue
        if token.text in "([{":
            before = parts[place - 1].text if place else ""
            brackets.append(token.text == "[" and before == "-")
        elif token.text in ")]}" and brackets:
            brackets.pop()
        elif token.text == "*" and brackets and brackets[-1]:
            bounds.append(HopBound(_upper_bound(parts[place + 1 : place + 12]), token.start))
    return bounds


def explained(cypher: str) -> str | None:
    """*cypher* with a leading EXPLAIN blanked out; None if it has none."""
    match = _EXPLAIN.match(cypher)
    return None if match is None else " " * match.end() + cypher[match.end() :]


def decoded(cypher: str) -> Iterator[tuple[str, list[int]]]:
    r"""*cypher* as Neo4j may read it, with the place in it of every character.

    Neo4j turns ``\u0027`` into a quote before it looks for strings. Once with
    backslashes taken in pairs, as it does, and once without.
    """
    for pattern in (_ESCAPE, _BARE_ESCAPE):
        if pattern.search(cypher):
            yield _decoded(cypher, pattern)


def _decoded(cypher: str, pattern: re.Pattern[str]) -> tuple[str, list[int]]:
    pieces: list[str] = []
    places: list[int] = []
    end = 0
    for match in pattern.finditer(cypher):
        plain = cypher[end : match.start()]
        code = match["code"]
        piece = match.group() if code is None else chr(int(code, 16))
        pieces += [plain, piece]
        places += range(end, match.start())
        places += [match.start()] * len(piece)
        end = match.end()
    pieces.append(cypher[end:])
    places += range(end, len(cypher) + 1)
    return "".join(pieces), places


def _upper_bound(following: list[Token]) -> int | None:
    """The upper end of a bound: ``3``, ``1..3`` or ``..3``, words such as SHORTEST before."""
    words = [token for token in following if token.kind != "word"]
    first = words[0] if words else None
    if first is not None and first.kind == "number":
        words = words[1:]
    if [token.text for token in words[:2]] == [".", "."]:
        last = words[2] if len(words) > 2 else None
        return _integer(last) if last is not None and last.kind == "number" else None
    return _integer(first) if first is not None and first.kind == "number" else None


def _integer(token: Token) -> int | None:
    return int(token.text) if token.text.isdecimal() else None


def _tokens(cypher: str) -> Iterator[Token]:
    before = ""
    for match in _TOKEN.finditer(cypher):
        kind, text = match.lastgroup or "mark", match.group()
        if kind == "open":
            raise QueryError(f"{text} is not closed", position=match.start())
        if kind == "mark" and unicodedata.category(text).startswith("C"):
            raise QueryError(
                f"the query has an invisible character, U+{ord(text):04X}", position=match.start()
            )
        if text == "\\":
            # some that Neo4j decodes to nonsense break its answer, and the asker waits
            raise QueryError("a backslash outside of a text", position=match.start())
        if kind == "word" and before == "number":
            # ladybug reads 1e0LOAD as a number and a clause
            raise QueryError(
                "a word right after a number", position=match.start(), hint="put a space between"
            )
        before = kind
        if kind not in ("space", "comment"):
            yield Token(kind, text, match.start())
