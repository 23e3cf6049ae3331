"""The clauses of a plain query: what can be answered from tables, without a database.

Patterns of a fixed length, conditions, columns, counts, order and limit. The stores' own queries
are nearly all of this kind; what is beyond it gives None and is for an engine.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from graphstore.cypher.text import Token, tokens

Values: TypeAlias = Mapping[str, "Expression"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text or a truth value."""

    value: object


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """``$name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Property:
    """``variable.name``; of a variable itself, or an earlier column, without *name*."""

    variable: str
    name: str | None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator in upper case or a function in lower case, and what it is of.

    CASE has its conditions and values in turns, then what is otherwise.
    """

    name: str
    of: tuple[Expression, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Subquery:
    """``EXISTS { MATCH … }``."""

    match: Match


Expression: TypeAlias = Literal | QueryParameter | Property | Operation | Subquery


@dataclass(frozen=True, slots=True)
class PatternElement:
    """A node or a relationship of a pattern; one without a name has a number for it."""

    variable: str
    table: str | None
    properties: Values


@dataclass(frozen=True, slots=True)
class Hop:
    """A relationship and the variables of the nodes it leads from and to."""

    rel: PatternElement
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Match:
    """``[OPTIONAL] MATCH … [WHERE …]``; *where* are the conditions that must all be true."""

    nodes: Sequence[PatternElement]
    hops: Sequence[Hop]
    where: Sequence[Expression]
    optional: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """``WITH`` or ``RETURN``, with what follows; *order* has whether a key is descending."""

    items: Sequence[tuple[str, Expression]]
    distinct: bool
    where: Sequence[Expression]
    order: Sequence[tuple[Expression, bool]]
    limit: Expression | None


@cache
def parsed(text: str) -> tuple[Match | Columns, ...] | None:
    """The clauses of a query, None if it is not a plain one."""
    try:
        return tuple(_Parser(tokens(text)).query())
    except _BEYOND:
        return None


@cache
def tables_named(text: str) -> frozenset[str] | None:
    """The labels and relationship types that a query of any functions can see; None if that is not
    sure, as of a node without a label."""
    parser = _Parser(tokens(text), is_any_function=True)
    try:
        parser.query()
    except _BEYOND:
        return None
    seen = {element.variable: element.table for element in parser.elements}
    seen |= {element.variable: element.table for element in parser.elements if element.table}
    return None if None in seen.values() else frozenset(map(str, seen.values()))


class _NotPlainError(Exception):
    """The text goes beyond plain queries."""


_BEYOND = (_NotPlainError, RecursionError)
"""What says so: the engine answers what is nested too deeply here, or refuses it."""


_COMPARED = ("<>", "<=", ">=", "=", "<", ">", "IN")
_FUNCTIONS = frozenset(("coalesce", "count", "max", "cast"))


@dataclass
class _Parser:
    parts: list[Token]
    is_any_function: bool = False
    """Also those, and columns without a name, that cannot be answered from tables."""
    place: int = 0
    elements: list[PatternElement] = field(default_factory=list)

    def query(self) -> list[Match | Columns]:
        clauses: list[Match | Columns] = []
        while self.place < len(self.parts):
            if self.takes("RETURN"):
                clauses.append(self.columns())
                if self.place < len(self.parts):
                    raise _NotPlainError
            elif self.takes("WITH"):
                clauses.append(self.columns())
            else:
                optional = self.takes("OPTIONAL")
                self.expect("MATCH")
                clauses.append(self.match(optional=optional))
        return clauses

    def match(self, *, optional: bool) -> Match:
        nodes: list[PatternElement] = []
        hops: list[Hop] = []
        while True:
            nodes.append(self.node())
            while self.peek() in ("-", "<"):
                back = self.takes("<", "-") if self.peek() == "<" else not self.takes("-")
                self.expect("[")
                rel = self.element("]")
                if rel.table is None:
                    raise _NotPlainError
                self.expect("-") if back else self.expect("-", ">")
                before = nodes[-1].variable
                nodes.append(self.node())
                ends = (before, nodes[-1].variable)
                hops.append(Hop(rel, *(ends[::-1] if back else ends)))
            if not self.takes(","):
                return Match(nodes, hops, self.where(), optional)

    def node(self) -> PatternElement:
        self.expect("(")
        return self.element(")")

    def element(self, end: str) -> PatternElement:
        variable, table = "", None
        if self.peek() not in (":", "{", end):
            variable = self.name()
        if self.takes(":"):
            table = self.name()
        properties: dict[str, Expression] = {}
        if self.takes("{"):
            while True:
                name = self.name()
                self.expect(":")
                properties[name] = self.expression()
                if not self.takes(","):
                    break
            self.expect("}")
        self.expect(end)
        element = PatternElement(variable or str(len(self.elements)), table, properties)
        self.elements.append(element)
        return element

    def columns(self) -> Columns:
        distinct = self.takes("DISTINCT")
        items: list[tuple[str, Expression]] = []
        while True:
            value = self.expression()
            name = value.variable if isinstance(value, Property) and value.name is None else ""
            if self.takes("AS"):
                name = self.name()
            if not name and not self.is_any_function:
                raise _NotPlainError
            items.append((name, value))
            if not self.takes(","):
                break
        order: list[tuple[Expression, bool]] = []
        if self.takes("ORDER", "BY"):
            while True:
                key = self.expression()
                order.append((key, self.takes("DESC")))
                if not self.takes(","):
                    break
        limit = self.expression() if self.takes("LIMIT") else None
        return Columns(items, distinct, self.where(), order, limit)

    def where(self) -> list[Expression]:
        if not self.takes("WHERE"):
            return []
        return _conjuncts(self.expression())

    def expression(self) -> Expression:
        return self.chain(self.conjunction, "OR")

    def conjunction(self) -> Expression:
        return self.chain(self.negation, "AND")

    def negation(self) -> Expression:
        if self.takes("NOT"):
            return Operation("NOT", (self.negation(),))
        return self.comparison()

    def comparison(self) -> Expression:
        left = self.chain(self.atom, "+", "-")
        if self.takes("IS"):
            name = "IS NOT NULL" if self.takes("NOT") else "IS NULL"
            self.expect("NULL")
            return Operation(name, (left,))
        for sign in _COMPARED:
            if self.takes(*(sign if len(sign) == 2 and sign != "IN" else [sign])):
                return Operation(sign, (left, self.chain(self.atom, "+", "-")))
        return left

    def chain(self, operand: Callable[[], Expression], *signs: str) -> Expression:
        value = operand()
        while self.peek() in signs:
            sign = self.peek()
            self.place += 1
            value = Operation(sign, (value, operand()))
        return value

    def atom(self) -> Expression:
        if self.takes("("):
            value = self.expression()
            self.expect(")")
            return value
        if self.takes("$"):
            return QueryParameter(self.name())
        if self.takes("CASE"):
            return self.case()
        if self.takes("EXISTS"):
            self.expect("{", "MATCH")
            match = self.match(optional=False)
            self.expect("}")
            return Subquery(match)
        sign = "-" if self.takes("-") else ""
        token = self.token()
        if token.kind in ("number", "text"):
            self.place += 1
            return Literal(_value(sign + token.text))
        if token.word in ("TRUE", "FALSE"):
            self.place += 1
            return Literal(token.word == "TRUE")
        if sign:
            raise _NotPlainError
        name = self.name()
        if self.takes("("):
            return self.call(name.lower())
        return Property(name, self.name() if self.takes(".") else None)

    def case(self) -> Expression:
        parts = []
        while self.takes("WHEN"):
            parts.append(self.expression())
            self.expect("THEN")
            parts.append(self.expression())
        self.expect("ELSE")
        parts.append(self.expression())
        self.expect("END")
        return Operation("CASE", tuple(parts))

    def call(self, name: str) -> Expression:
        if name not in _FUNCTIONS and not self.is_any_function:
            raise _NotPlainError
        if self.takes("*", ")"):
            return Operation(name, ())
        distinct = self.takes("DISTINCT")
        of = [self.expression()]
        while self.takes(","):
            of.append(self.expression())
        self.expect(")")
        return Operation(name, tuple(of), distinct)

    def token(self) -> Token:
        if self.place >= len(self.parts):
            raise _NotPlainError
        return self.parts[self.place]

    def peek(self, ahead: int = 0) -> str:
        at = self.place + ahead
        if at >= len(self.parts):
            return ""
        token = self.parts[at]
        return token.word or token.text

    def takes(self, *words: str) -> bool:
        """True if these words come next; they are read then."""
        is_next = all(self.peek(ahead) == word for ahead, word in enumerate(words))
        self.place += len(words) if is_next else 0
        return is_next

    def expect(self, *words: str) -> None:
        if not self.takes(*words):
            raise _NotPlainError

    def name(self) -> str:
        token = self.token()
        if not token.name or token.kind == "number":
            raise _NotPlainError
        self.place += 1
        return token.name


def _conjuncts(value: Expression) -> list[Expression]:
    if isinstance(value, Operation) and value.name == "AND":
        return [one for part in value.of for one in _conjuncts(part)]
    return [value]


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise _NotPlainError from None
