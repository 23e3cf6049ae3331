"""One named query as a ``.cypher`` file: what its head says, and its text.

The head is made of comments::

    // Answers: ops of a type whose error is above a limit.
    // Parameter type: text
    // Columns: op, error
    // Hits type=Add:
    //   conv: Conv error=0.001
    //   add: Add(conv) error=0.5 over
    // Misses type=Add:
    //   conv: Conv error=0.5 over

``Internal`` instead of ``Answers`` is for what only the stores need. Kinds of parameters that end
in ``op`` or ``ops`` take op ids of a graph; the store turns them into node ids. The small graphs at
which the query must hit and must miss are in the language of :mod:`graphstore.cypher.small_runs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import dropwhile

_HEAD = re.compile(r"// (Answers|Internal|Columns|Hits|Misses|Parameter \w+)\b(.*)$")
_CASE_LINE = re.compile(r"//\s{2,}(\S.*)$")
_PARAMETER = re.compile(r"^// Parameter (\w+): (.+)$", re.MULTILINE)
_COMMENT = re.compile(r"^//.*\n", re.MULTILINE)


class Dialect(StrEnum):
    """Whose Cypher a text is for."""

    EMBEDDED = "embedded"
    NEO4J = "neo4j"


@dataclass(frozen=True, slots=True)
class QueryCase:
    """A small graph, as lines with their numbers, at which a query ``hits`` or not when it is
    asked with the values ``given``; line ``number`` begins it."""

    hits: bool
    given: Mapping[str, str]
    lines: Sequence[tuple[int, str]]
    number: int


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query text without its comments, what it answers and its parameters by kind.

    ``columns`` are those it must have, ``cases`` what it is checked with. ``place`` is the file of
    a query that does not come with the program, ``pack`` the pack it is of.
    """

    name: str
    text: str
    answers: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False
    columns: tuple[str, ...] = ()
    cases: tuple[QueryCase, ...] = ()
    pack: str = ""
    place: str = ""


def parse_query(name: str, text: str) -> NamedQuery:
    """The query *name* that a file with this *text* holds.

    Raises:
        ValueError: it does not say what it answers.
    """
    heads = list(_heads(text))
    answers = next((head for head in heads if head[1] in ("Answers", "Internal")), None)
    if answers is None:
        raise ValueError(f"the query {name} does not say what it answers")
    columns = next((words for _, word, words in heads if word == "Columns"), "")
    return NamedQuery(
        name,
        _COMMENT.sub("", text).strip(),
        answers[2],
        dict(_PARAMETER.findall(text)),
        answers[1] == "Internal",
        tuple(columns.replace(",", " ").split()),
        tuple(_cases(text.splitlines(), heads)),
    )


def text_line(text: str, query: NamedQuery, position: int | None) -> int:
    """The line in the file *text* of a place in the text of its *query*."""
    numbered = [
        (at, line) for at, line in enumerate(text.splitlines(), 1) if not line.startswith("//")
    ]
    numbers = [
        at for at, _ in dropwhile(lambda numbered_line: not numbered_line[1].strip(), numbered)
    ]
    place = query.text[: position or 0].count("\n")
    return numbers[min(place, len(numbers) - 1)] if numbers else 1


def _heads(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, word, what is said behind the colon) of each line of the head that says something."""
    for number, line in enumerate(text.splitlines(), 1):
        match = _HEAD.match(line)
        if match is not None:
            yield number, match[1], match[2].strip(" :")


def _cases(lines: Sequence[str], heads: Sequence[tuple[int, str, str]]) -> Iterator[QueryCase]:
    for number, word, content in heads:
        if word not in ("Hits", "Misses"):
            continue
        block = []
        for at, line in enumerate(lines[number:], number + 1):
            match = _CASE_LINE.match(line)
            if match is None:
                break
            block.append((at, match[1].rstrip()))
        values = dict(pair.partition("=")[::2] for pair in content.split())
        yield QueryCase(word == "Hits", values, tuple(block), number)
