"""Cypher queries, named ones and the user's own, that every Cypher store answers alike; a store
only adds how a query is sent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from graphstore.cancellation import Cancellation
from graphstore.contract import QueryParameters, QueryResult
from graphstore.cypher.limits import (
    NO_LIMITS,
    QueryLimits,
    check_parameters,
    cut,
    limited,
    plain_parameter,
    planned_text,
    planned_values,
    window_values,
    windows,
)
from graphstore.cypher.queries import WINDOW, NamedQuery, load
from graphstore.cypher.read_only import check_read_only
from graphstore.cypher.returned_names import with_lists_in_order
from graphstore.cypher.targets import CypherTargets, TargetKeys, stamped
from graphstore.cypher.text import explained, tokens
from graphstore.cypher.traversals import ON_ARRAYS, TraversalRequest
from graphstore.errors import QueryError
from graphstore.model import Side
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import first_id
from graphstore.schema.tables import RENAMED
from graphstore.traverse.algorithms import first_edges
from graphstore.traverse.arrays import GraphArrays

_KEPT = (
    "errors_by_type",
    "first_diverging",
    "not_compared_by_reason",
    "ops_by_type",
    "sides",
    "unlinked_ops",
)
"""Queries that read a whole run for a few rows; their answers are cached, as a run does not
change."""


class CypherQueries(CypherTargets):
    """The part of :class:`GraphStore` that answers questions with rows."""

    def named(
        self,
        query: str,
        target: str,
        params: Mapping[str, object],
        *,
        limit: int | None = None,
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> QueryResult:
        """The answer of a named query of ``graphstore/cypher/queries`` on *target*.

        At most *limit* rows are fetched, in *timeout* seconds; None: all, in any time.
        """
        limits = QueryLimits(limit, timeout, cancellation)
        return self.answer(load(query, self.dialect), target, params, limits)

    def answer(
        self,
        wanted: NamedQuery,
        target: str,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        """As :meth:`named`, of a query in hand.

        Raises:
            QueryError: it takes other parameters, or values of another kind.
        """
        query, limit = wanted.name, limits.limit
        place = self._place(target)
        if set(params) != set(wanted.parameters):
            raise QueryError(
                f"query {query} takes {_listed(wanted.parameters)}, not {_listed(params)}"
            )
        implied = self._implied(place, wanted)
        if query in ON_ARRAYS:
            return self._on_arrays(place, wanted, params, limit)
        values = {
            name: self._parameter(place, kind, name, params[name])
            for name, kind in wanted.parameters.items()
        }
        if wanted.pack:  # a stranger's text: asked with all the care a user's is
            checked = self._checked_query(wanted.text, QueryParameters(values), target)
            return self._query(wanted.text, checked, limits, target)
        values.update(implied)
        if query in _KEPT and place.stamp is not None:
            key = f"{query} {stamped(place)}"
            full_answer = self._answers.get(key, lambda: self._ask(place, wanted, values))
            return cut(full_answer, limit)
        text, limit_values = limited(wanted, limit)
        values.update(limit_values)
        if f"${WINDOW}" not in wanted.text:
            return self._ask(place, text, values, limits)
        for window in self._windows(place, wanted.text, limit):
            answer = self._ask(place, text, {**values, **window}, limits)
            if answer.truncated:
                break
        return answer

    def query(
        self, cypher: str, parameters: QueryParameters, target: str | None = None
    ) -> QueryResult:
        """The answer of the user's own Cypher, read-only; on one target or all.

        With *target*, its keys are the parameters ``$run``, ``$graph``, ``$golden`` and
        ``$device``. EXPLAIN before the query gives the lines of its plan.
        """
        values = self._checked_query(cypher, parameters, target)
        if explained(cypher) is not None:
            lines = self.explain(cypher, parameters, target).splitlines()
            return QueryResult(("plan",), tuple((line,) for line in lines))
        check_parameters(cypher, values)
        limits = QueryLimits(parameters.limit, parameters.timeout, parameters.cancellation)
        answer = with_lists_in_order(cypher, self._query(cypher, values, limits, target))
        names = {token.name for token in tokens(cypher)}
        earlier = [said for name, said in RENAMED.items() if name in names]
        return replace(answer, notes=(*answer.notes, *earlier))

    def explain(self, cypher: str, parameters: QueryParameters, target: str | None = None) -> str:
        """How the store would answer a query of :meth:`query`: its plan, as text.

        *cypher* may be the name of a named query; one that is answered on arrays is not
        planned by the database, which is said.
        """
        text = planned_text(cypher, self.dialect)
        header = "Answered on arrays in memory; the database would do this:\n\n"
        values = self._checked_query(text, parameters, target)
        limits = QueryLimits(None, parameters.timeout, parameters.cancellation)
        values = {**planned_values(cypher, self.dialect), **values}
        plan = self._plan(text, values, limits, target)
        return header + plan if cypher in ON_ARRAYS else plan

    @abstractmethod
    def _query(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> QueryResult:
        """The rows of a checked query of the user."""

    @abstractmethod
    def _plan(
        self, cypher: str, values: Mapping[str, object], limits: QueryLimits, target: str | None
    ) -> str:
        """The plan of a checked query; not all its parameters need a value."""

    def _on_arrays(
        self, place: TargetKeys, query: NamedQuery, params: Mapping[str, object], limit: int | None
    ) -> QueryResult:
        """The answer of a query of :data:`graphstore.cypher.traversals.ON_ARRAYS`."""
        answer = ON_ARRAYS[query.name]
        if query.name not in _KEPT or place.stamp is None:
            return answer(self._asked(place, query, params, limit))
        key = f"{query.name} {stamped(place)}"
        return cut(
            self._answers.get(key, lambda: answer(self._asked(place, query, params, None))), limit
        )

    def _asked(
        self, place: TargetKeys, query: NamedQuery, params: Mapping[str, object], limit: int | None
    ) -> TraversalRequest:
        """A question for :data:`graphstore.cypher.traversals.ON_ARRAYS`."""
        key, content = place.graph(Side.DEVICE)

        def arrays() -> GraphArrays:
            return self._arrays_of(place, key, content)

        values: dict[str, object] = {}
        for name, kind in query.parameters.items():
            value = plain_parameter(name, kind, params[name])
            if kind.endswith("op"):
                number = arrays().number.get(plain_text(str(value)))
                if number is None:
                    raise self._unknown_op(place, str(value), Side.DEVICE)
                value = number
            values[name] = value
        return TraversalRequest(
            arrays,
            lambda: self._index(place, Side.DEVICE),
            lambda: self._run_outputs(place),
            lambda: self._errors_of(place),
            values,
            limit,
        )

    def _windows(
        self, place: TargetKeys, text: str, limit: int | None
    ) -> Iterator[dict[str, object]]:
        """Growing ranges of ops in which to look for *limit* rows; the last one is the whole
        graph."""
        key, content = place.graph(Side.DEVICE)
        first, edge = first_id(key), None
        if "$end_target" in text and limit is not None:
            loaded = self._loaded.known(content)
            edge = None if loaded is None else first_edges(loaded.arrays, limit)
        if edge is not None:
            yield window_values(text, first, edge[0] + 1, edge)
        else:
            for end in windows(limit, self._op_count(place)):
                yield window_values(text, first, end)

    def _checked_query(
        self, cypher: str, parameters: QueryParameters, target: str | None
    ) -> dict[str, object]:
        """The parameters of the user's own *cypher*, with those the target sets.

        Raises:
            QueryError: the text does more than read.
        """
        check_read_only(cypher, self.dialect)
        implied = {} if target is None else self._target_keys(self._place(target), cypher)
        return {**implied, **parameters.values}

    def _parameter(self, place: TargetKeys, kind: str, name: str, value: object) -> object:
        value = plain_parameter(name, kind, value)
        side = Side.GOLDEN if kind.startswith("original ") else Side.DEVICE
        if isinstance(value, list):
            return [self._node(place, op, side) for op in value]
        return self._node(place, str(value), side) if kind.endswith("op") else value

    def _node(self, place: TargetKeys, op: str, side: Side) -> int:
        """The node id of an op that must exist."""
        nodes = self._nodes(place, [op], side)
        if op not in nodes:
            raise self._unknown_op(place, op, side)
        return nodes[op]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names)) or "no parameters"
