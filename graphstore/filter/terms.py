"""A parsed filter: a plain value that prints as text, compares and matches op rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphstore.columns.coded import Bool
from graphstore.columns.op_columns import OpColumns
from graphstore.filter.conditions import Condition, all_of
from graphstore.filter.fields import Operator
from graphstore.filter.predicates import condition_of


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text with gaps: *pieces* with any text between two of them.

    ``MatMul*`` is ``("MatMul", "")``; a text without ``*`` has one piece.
    """

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        """The pattern with ``*`` in the gaps."""
        return "*".join(self.pieces)

    @property
    def literal(self) -> bool:
        """True if there is no gap."""
        return len(self.pieces) == 1

    def __str__(self) -> str:
        if _is_bare(self.pieces):
            return self.text
        escaped = (
            piece.replace("\\", "\\\\").replace('"', '\\"').replace("*", "\\*")
            for piece in self.pieces
        )
        return f'"{"*".join(escaped)}"'


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; *field* is canonical, any of *values* satisfies it.

    A regular expression is a single value of one piece.
    """

    field: str
    operator: Operator
    values: tuple[Pattern, ...]
    negated: bool = False

    def __str__(self) -> str:
        if self.operator is Operator.REGEX:
            value = _regex_text(self.values[0].text)
        else:
            value = "|".join(map(str, self.values))
        return f"{'!' if self.negated else ''}{self.field}{self.operator}{value}"


@dataclass(frozen=True)
class OpFilter:
    """Conditions that all hold. ``str`` gives a text that parses to an equal filter."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return OpFilter, (self.terms,)

    @property
    def asks_attributes(self) -> bool:
        """Whether it asks for attributes of ops, which columns have only once they were read."""
        return any(term.field in ("attr", "on_rank") for term in self.terms)

    def mask(self, ops: OpColumns) -> Bool:
        """The *ops* for which every condition holds."""
        return self._condition(ops)

    @cached_property
    def _condition(self) -> Condition:
        return all_of(
            [
                condition_of(
                    term.field,
                    term.operator,
                    tuple(value.pieces for value in term.values),
                    negated=term.negated,
                )
                for term in self.terms
            ]
        )


def _is_bare(pieces: tuple[str, ...]) -> bool:
    text = "".join(pieces)
    if not any(pieces) and len(pieces) == 1:
        return False
    if any(char.isspace() or char in '|*"' for char in text):
        return False
    return not pieces[0].startswith(("'", "!", "=", "<", ">", "~", ":"))


def _regex_text(regex: str) -> str:
    if regex and not regex.startswith(('"', "'")) and not any(map(str.isspace, regex)):
        return regex
    escaped = regex.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
