"""Plain queries answered from the tables of an entry: no database is made for them.

What a query says is read from its text (:mod:`graphstore.cypher.parsed_query`), so there is one
text for all stores. Matches are joins of columns: a relationship's ends, or a key among a node's
columns that says the same, with the ids of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from graphstore.cypher import arrow_columns as arrow
from graphstore.cypher.parsed_query import (
    Columns,
    Expression,
    Literal,
    Match,
    Operation,
    PatternElement,
    Property,
    QueryParameter,
    Subquery,
    parsed,
)
from graphstore.embedded.table_expressions import Evaluation, filtered
from graphstore.embedded.table_reader import Bound, Rows, TableReader
from graphstore.schema.tables import NODES, RELS, ColumnType

_RELS = {rel.type: rel for rel in RELS}
_KEYS = {"OF": ("op", "id"), "OF_TENSOR": ("tensor", "id"), "PRODUCES": ("id", "op")}
"""The columns of two nodes that say the same as a relationship, by its type."""
_IDS = {node.label: node.columns[0].type for node in NODES}
_NUMBERED = frozenset(
    rel.type for rel in RELS if {_IDS[rel.source], _IDS[rel.target]} == {ColumnType.INT64}
)
_FEW = ("id", "from", "to", "op", "tensor")
"""Columns of which few rows have the same value: joined first."""
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


def plain(text: str) -> Sequence[Match | Columns] | None:
    """The clauses of a query that can be answered here, None if it is another."""
    clauses = parsed(text)
    for clause in clauses or ():
        if isinstance(clause, Match) and any(hop.rel.table not in _NUMBERED for hop in clause.hops):
            return None
    return clauses


@dataclass(slots=True)
class _Nodes:
    """One node or relationship a row, by its row in *table*; by its *ids* until that is known."""

    table: str
    reader: TableReader
    known: Rows | None = None
    ids: Rows | None = None

    @property
    def rows(self) -> Rows:
        if self.known is None:
            assert self.ids is not None
            self.known = np.full(len(self.ids), -1, np.int64)
            places, rows = self.reader.matching(self.table, "id", self.ids)
            self.known[places] = rows
        return self.known

    def __len__(self) -> int:
        known = self.ids if self.known is None else self.known
        return 0 if known is None else len(known)

    def column(self, name: str | None) -> Any:
        """A property, or what tells it from others."""

        name = name or "id"
        if name == "id" and self.ids is not None:
            return arrow.array_of(self.ids, self.ids < 0)
        return self.reader.column(self.table, name, self.rows)

    def taken(self, places: Rows) -> _Nodes:
        """Those at *places*; -1 is none."""

        def taken(values: Rows | None) -> Rows | None:
            if values is None or not len(values):
                return None if values is None else np.full(len(places), -1, np.int64)
            return np.where(places < 0, -1, values[places])

        return _Nodes(self.table, self.reader, taken(self.known), taken(self.ids))


@dataclass(slots=True)
class _Frame:
    """What is bound so far: nodes and columns of *size* rows, by name."""

    size: int
    bound: Mapping[str, Any] = field(default_factory=dict)

    def read(self, variable: str, name: str | None) -> Any:
        """A property, or a column of an earlier clause."""
        value = self.bound[variable]
        return value.column(name) if isinstance(value, _Nodes) else value

    def taken(self, places: Rows) -> _Frame:
        """The rows at *places*; in a row -1 nothing is set."""

        indices = arrow.array_of(places, places < 0)
        return _Frame(
            len(places),
            {
                name: value.taken(places) if isinstance(value, _Nodes) else value.take(indices)
                for name, value in self.bound.items()
            },
        )


_PLACE = "$place"
"""The column that numbers the rows there were before a match."""
_Edge: TypeAlias = tuple[str, str, str, str]
"""A variable and its column, and those that are equal."""


def answer(
    clauses: Sequence[Match | Columns],
    reader: TableReader,
    params: Mapping[str, object],
    check: Callable[[], None],
) -> Any:
    """The rows of a plain query as an Arrow table; *check* is called on the way and may raise."""
    import pyarrow as pa

    frame, columns = _Frame(1), dict[str, Any]()
    answering = _Answering(reader, params, check)
    for clause in clauses:
        if isinstance(clause, Match):
            frame = answering.matched(frame, clause)
        else:
            columns = answering.columns(frame, clause)
            frame = _Frame(len(next(iter(columns.values()))), columns)
    return pa.table({name: frame.read(name, None) for name in columns})


@dataclass(frozen=True, slots=True)
class _Answering:
    reader: TableReader
    params: Mapping[str, object]
    check: Callable[[], None]

    def matched(self, frame: _Frame, match: Match) -> _Frame:
        """*frame* with what a match binds, a row for each way to do so."""
        if not match.optional:
            return self._joined(frame, match)
        matched = self._joined(self._numbered(frame), match)
        places = arrow.integers(matched.bound[_PLACE])
        is_without = np.ones(frame.size, np.bool_)
        is_without[places] = False
        without = np.flatnonzero(is_without)
        rows = np.concatenate((np.arange(matched.size), np.full(len(without), -1)))
        order = np.argsort(np.concatenate((places, without)), kind="stable")
        places = np.concatenate((places, without))[order]
        bound = matched.taken(rows[order]).bound if matched.size else self._nothing(match, places)
        new = {name: value for name, value in bound.items() if name not in frame.bound}
        new.pop(_PLACE, None)
        return _Frame(len(places), {**new, **frame.taken(places).bound})

    def _nothing(self, match: Match, places: Rows) -> dict[str, Any]:
        none = np.full(len(places), -1, np.int64)
        tables = self._tables(match)
        return {name: _Nodes(table, self.reader, none) for name, table in tables.items()}

    def _numbered(self, frame: _Frame) -> _Frame:

        return _Frame(frame.size, {**frame.bound, _PLACE: arrow.array_of(np.arange(frame.size))})

    def _joined(self, frame: _Frame, match: Match) -> _Frame:
        tables = self._tables(match)
        edges, conditions = self._edges(match, {*tables, *frame.bound})
        loose = set(tables) - set(frame.bound)
        local: dict[str, list[Expression]] = {name: [] for name in loose}
        others: list[Expression] = []
        for condition in conditions:
            names = _variables(condition)
            home = next(iter(names)) if len(names) == 1 else ""
            (local[home] if home in loose else others).append(condition)
        while loose:
            self.check()
            usable = (one for one in _turned(edges) if one[0] in frame.bound and one[2] in loose)
            edge = min(usable, key=lambda one: one[3] not in _FEW, default=None)
            if edge is None:
                name = max(sorted(loose), key=lambda one: self._score(local[one]))
                frame = self._seeded(frame, name, tables[name], local[name])
            else:
                edges.remove(edge if edge in edges else (*edge[2:], *edge[:2]))
                name = edge[2]
                frame = self._extended(frame, edge, tables[name], local[name])
            loose.discard(name)
        others += [Operation("=", (Property(*one[:2]), Property(*one[2:]))) for one in edges]
        return self._filtered(frame, others)

    def _tables(self, match: Match) -> dict[str, str]:
        """The table of each variable of a match; of those bound before, none."""
        tables = {node.variable: node.table for node in match.nodes if node.table is not None}
        for hop in match.hops:
            rel = _RELS[str(hop.rel.table)]
            tables.setdefault(hop.source, rel.source)
            tables.setdefault(hop.target, rel.target)
            if not self._is_by_key(hop.rel):
                tables[hop.rel.variable] = rel.type
        return tables

    def _is_by_key(self, rel: PatternElement) -> bool:
        return rel.table in _KEYS and rel.variable.isdecimal() and not rel.properties

    def _edges(self, match: Match, known: Collection[str]) -> tuple[list[_Edge], list[Expression]]:
        """The columns that must be equal, and the other conditions."""
        edges: list[_Edge] = []
        conditions: list[Expression] = []
        for hop in match.hops:
            if self._is_by_key(hop.rel):
                own, other = _KEYS[str(hop.rel.table)]
                edges.append((hop.source, own, hop.target, other))
            else:
                edges.append((hop.source, "id", hop.rel.variable, "from"))
                edges.append((hop.rel.variable, "to", hop.target, "id"))
        for element in (*match.nodes, *(hop.rel for hop in match.hops)):
            for name, value in element.properties.items():
                conditions.append(Operation("=", (Property(element.variable, name), value)))
        for condition in match.where:
            edge = _edge(condition)
            if edge is not None and edge[0] in known and edge[2] in known:
                edges.append(edge)
            else:
                conditions.append(condition)
        return edges, conditions

    def _score(self, conditions: Sequence[Expression]) -> int:
        """How few rows conditions leave, roughly: by ids, by ranges of numbers, by values."""
        bounds = list(self._bounds(conditions))
        if any(column == "id" for column, _, _ in bounds):
            return 3
        return 2 if bounds else bool(conditions)

    def _bounds(self, conditions: Sequence[Expression]) -> Iterator[Bound]:
        """What conditions say of the least and the greatest number of columns."""
        for one in conditions:
            if not isinstance(one, Operation) or len(one.of) < 2:
                continue
            left, right = one.of[:2]
            sign = one.name
            if not isinstance(left, Property) and sign in _TURNED:
                left, right, sign = right, left, _TURNED[sign]
            if not isinstance(left, Property) or left.name is None:
                continue
            value = self._constant(right)
            if sign == "IN" and isinstance(value, list) and all(type(n) is int for n in value):
                yield left.name, ">=", min(value, default=0)
                yield left.name, "<=", max(value, default=0)
            elif sign in _TURNED and type(value) is int:
                yield left.name, sign, value

    def _constant(self, value: Expression) -> object:
        if isinstance(value, Literal):
            return value.value
        return self.params.get(value.name) if isinstance(value, QueryParameter) else None

    def _seeded(
        self, frame: _Frame, name: str, table: str, conditions: Sequence[Expression]
    ) -> _Frame:
        """*frame* with each row of a table that meets *conditions*."""

        def keep(read: Callable[[str], Any]) -> Any:
            return filtered(conditions, self._evaluation(lambda _, column: read(str(column))))

        rows = self.reader.rows(table, list(self._bounds(conditions)), keep)
        nodes = _Nodes(table, self.reader, np.tile(rows, frame.size))
        places = np.repeat(np.arange(frame.size), len(rows))
        return _Frame(len(places), {**frame.taken(places).bound, name: nodes})

    def _extended(
        self, frame: _Frame, edge: _Edge, table: str, conditions: Sequence[Expression]
    ) -> _Frame:
        """*frame* with the rows of a table that an edge leads to."""
        bound, key, name, column = edge
        keys = arrow.integers(frame.read(bound, key))
        if column == "id" and not conditions:
            there = np.flatnonzero(keys >= 0)
            frame = frame if len(there) == len(keys) else frame.taken(there)
            nodes = _Nodes(table, self.reader, ids=keys[there])
            return _Frame(frame.size, {**frame.bound, name: nodes})
        places, rows = self.reader.matching(table, column, keys)
        nodes = _Nodes(table, self.reader, rows)
        frame = _Frame(len(places), {**frame.taken(places).bound, name: nodes})
        return self._filtered(frame, conditions)

    def _filtered(self, frame: _Frame, conditions: Sequence[Expression]) -> _Frame:
        for condition in conditions:
            fits = filtered([condition], self._evaluation(frame.read, frame))
            if fits is not None and not fits.all():
                frame = frame.taken(np.flatnonzero(fits))
        return frame

    def _evaluation(
        self, read: Callable[[str, str | None], Any], frame: _Frame | None = None
    ) -> Evaluation:
        exists = None if frame is None else partial(self._exists, frame)
        return Evaluation(read, self.params, exists)

    def _exists(self, frame: _Frame, match: Match) -> Any:

        there = np.zeros(frame.size, np.bool_)
        matched = self._joined(self._numbered(frame), match)
        there[arrow.integers(matched.bound[_PLACE])] = True
        return arrow.array_of(there)

    def columns(self, frame: _Frame, clause: Columns) -> dict[str, Any]:
        """The columns of WITH or RETURN."""
        evaluation = self._evaluation(frame.read, frame)
        columns = evaluation.items(clause.items, frame.size, distinct=clause.distinct)
        nodes = {
            name: frame.bound[value.variable]
            for name, value in clause.items
            if isinstance(value, Property) and value.name is None
            if isinstance(frame.bound.get(value.variable), _Nodes)
        }
        for name, node in nodes.items():
            ids = arrow.integers(columns[name])
            columns[name] = _Nodes(node.table, self.reader, ids=ids)
        after = _Frame(len(next(iter(columns.values()))), columns)
        if clause.where:
            after = self._filtered(after, clause.where)
        if not clause.order and clause.limit is None:
            return dict(after.bound)

        def read(variable: str, name: str | None) -> Any:
            is_new = variable in after.bound and (name is None or variable not in frame.bound)
            return (after if is_new else frame).read(variable, name)

        order = replace(evaluation, read=read).order(clause.order, after.size)
        limit = None if clause.limit is None else self._constant(clause.limit)
        return dict(after.taken(order[: limit if isinstance(limit, int) else None]).bound)


def _turned(edges: Sequence[_Edge]) -> Iterator[_Edge]:
    for edge in edges:
        yield edge
        yield (*edge[2:], *edge[:2])


def _edge(condition: Expression) -> _Edge | None:
    """The columns that a condition says are equal."""
    if isinstance(condition, Operation) and condition.name == "=":
        left, right = condition.of
        if isinstance(left, Property) and isinstance(right, Property) and left.name and right.name:
            return left.variable, left.name, right.variable, right.name
    return None


def _variables(value: Expression) -> set[str]:
    """What an expression reads; a subquery may read anything."""
    if isinstance(value, Property):
        return {value.variable}
    if isinstance(value, Operation):
        return {name for part in value.of for name in _variables(part)}
    return {"", "any"} if isinstance(value, Subquery) else set()
