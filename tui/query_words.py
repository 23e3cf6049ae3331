"""What is typed beside a Cypher text: parameters and limits; and what its schema looks like."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphstore.contract import QueryParameters
from graphstore.errors import InputError
from graphstore.schema.tables import NODES, RELS, Column

_USUAL = QueryParameters()


def schema_lines() -> list[tuple[str, str]]:
    """What a question can be about: each label with its properties, then each relationship with the
    labels it goes from and to."""
    lines = [(f"(:{node.label})", _names(node.columns)) for node in NODES]
    return lines + [
        (f"(:{rel.source})-[:{rel.type}]->(:{rel.target})", _names(rel.columns)) for rel in RELS
    ]


def _names(columns: Iterable[Column]) -> str:
    return " ".join(column.name for column in columns)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Values of parameters as typed, rows and seconds at most."""

    given: Mapping[str, str] = field(default_factory=dict)
    limit: int = _USUAL.limit
    timeout: float = _USUAL.timeout

    def command_words(self) -> list[str]:
        """The options of the shell command that say the same."""
        words = [word for name, value in self.given.items() for word in ("-p", f"{name}={value}")]
        words += ["--limit", str(self.limit)] if self.limit != _USUAL.limit else []
        return words + (
            ["--timeout", f"{self.timeout:g}"] if self.timeout != _USUAL.timeout else []
        )


def parse_settings(text: str) -> QuerySettings:
    """The settings that *text* spells: ``op=model/conv1 --limit 50 --timeout 5``, as the words of
    the shell command.

    Raises:
        InputError: a word that is none of these.
    """
    try:
        words = [word for word in shlex.split(text) if word not in ("-p", "--param")]
    except ValueError as error:
        raise InputError(f"a quote is not closed: {text}") from error
    parameters: dict[str, str] = {}
    limits = {"--limit": str(_USUAL.limit), "--timeout": str(_USUAL.timeout)}
    while words:
        word = words.pop(0)
        name, sign, value = word.partition("=")
        if name in limits:
            limits[name] = value if sign else words.pop(0) if words else ""
        elif sign and name:
            parameters[name.lstrip("$")] = value
        else:
            raise InputError(f"{word!r} is no parameter", hint="name=value --limit N --timeout S")
    try:
        limit, timeout = int(limits["--limit"]), float(limits["--timeout"])
    except ValueError as error:
        raise InputError(f"a limit is a number: {text}") from error
    if limit < 0 or not 0 < timeout < float("inf"):
        raise InputError(f"a limit is a number above 0: {text}")
    return QuerySettings(parameters, limit, timeout)


def settings_text(parameters: Mapping[str, str]) -> str:
    """*parameters* as :func:`parse_settings` reads it."""
    return " ".join(shlex.quote(f"{name}={value}") for name, value in parameters.items())


def longest_start(words: Iterable[str]) -> str:
    """What all *words* begin with, whatever their case: of the first of them."""
    first, *others = words
    size = len(first)
    for other in others:
        same = (a.lower() == b.lower() for a, b in zip(first, other, strict=False))
        size = min(size, next((n for n, equal in enumerate(same) if not equal), len(other)))
    return first[:size]
