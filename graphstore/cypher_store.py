"""What every Cypher store answers alike: look-ups by named query, values from rows.

A store adds how a target is found, how a query is sent, and how rows are written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from graphstore import codec
from graphstore.algorithms import first_edges
from graphstore.arrays import GraphArrays
from graphstore.cancellation import Cancellation
from graphstore.codec import plain_text
from graphstore.collector import paused_collector
from graphstore.contract import ListedOp, QueryParameters, QueryResult, RunData
from graphstore.cypher_targets import CypherTargets, Place, stamped
from graphstore.cypher_text import explained
from graphstore.errors import QueryError, StoreError
from graphstore.finding_rows import finding_value
from graphstore.listing import listed_ops
from graphstore.metric_reading import columns_of, metric_columns
from graphstore.metric_values import comparison_values
from graphstore.model import (
    Comparison,
    Finding,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Run,
    Side,
)
from graphstore.op_blocks import BLOCK, OpReader
from graphstore.original_ids import golden_ops, original_comparison, original_link
from graphstore.queries import WINDOW, NamedQuery, load
from graphstore.query_limits import (
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
from graphstore.read_only import check_read_only
from graphstore.stored_graph import first_id
from graphstore.traversals import ON_ARRAYS, Asked

_KEPT = (
    "errors_by_type",
    "first_diverging",
    "not_compared_by_reason",
    "ops_by_type",
    "sides",
    "unlinked_ops",
)
"""Queries that look at a whole run for a few rows: these are kept, a run does not change."""
_TRIES = 3
"""How often a run that is replaced while it is read whole is read again."""


class CypherStore(CypherTargets):
    """The part of :class:`GraphStore` that runs on named queries."""

    def run(self, name: str) -> Run:
        """One run."""
        record = self._run_record(self._run_place(name))
        return codec.run_value(str(record["run"]))

    def graph(self, target: str, side: Side = Side.DEVICE) -> ModelGraph:
        """A whole graph, equal to the one saved."""
        place = self._place(target)
        key, content = place.graph(side)
        return self._graphs.get(content, lambda: self._read_graph(place, key))

    def arrays(self, target: str, side: Side = Side.DEVICE) -> GraphArrays:
        """The graph as arrays for traversal; cached by content."""
        place = self._place(target)
        return self._arrays_of(place, *place.graph(side))

    def ops(self, target: str, ids: Sequence[str], side: Side = Side.DEVICE) -> dict[str, Op]:
        """The ops with these ids that there are, equal to those saved, by id."""
        place = self._place(target)
        key, _ = place.graph(side)
        nodes = self._nodes(place, ids, side)
        rows = self._rows(place, "op_places", {"ids": list(nodes.values())})
        places = {row["op"]: row["place"] for row in rows}
        blocks: dict[int, bytes] = {}

        def fetch(firsts: set[int]) -> None:
            asked = {"graph": key, "firsts": sorted(firsts - blocks.keys())}
            if asked["firsts"]:
                found = self._rows(place, "op_blocks", asked)
                blocks.update((row["first"], row["data"]) for row in found)

        reader = OpReader(blocks.__getitem__)
        fetch({number - number % BLOCK for number in places.values()})
        fetch({first for number in places.values() for first in reader.needed(number)})
        return {op: reader.op(places[plain_text(op)]) for op in ids if op in nodes}

    def listed_ops(self, target: str, side: Side = Side.DEVICE) -> Iterator[ListedOp]:
        """All ops in topo order as tables show them, read as they are taken."""
        place = self._place(target)
        key, _ = place.graph(side)

        def ask(name: str, first: int, until: int) -> Sequence[tuple[Any, ...]]:
            query = load(name, self.dialect)
            params = {**self._implied(place, query), "first": first, "until": until}
            if "graph" in params:
                params["graph"] = key
            if "$first_node" in query.text:
                params |= {"first_node": first_id(key) + first, "end_node": first_id(key) + until}
                del params["until"]
            return self._ask(place, query, params).rows

        loose: dict[str, list[tuple[int, str]]] = {}
        if place.run is not None:
            for seq, link in codec.links_value(str(self._run_record(place)["loose_links"])):
                ends = (link.device, link.original)
                op, partner = ends if side is Side.DEVICE else ends[::-1]
                loose.setdefault(op, []).append((seq, partner))
        return listed_ops(ask, side, None if place.run is None else loose)

    def comparisons(self, run: str, ops: Sequence[str] | None = None) -> list[Comparison]:
        """The comparisons of a run, all or those of the device ops with these ids."""
        place = self._run_place(run)
        if ops is None:

            def ask(name: str, first: int, until: int) -> QueryResult:
                return self._ask_internal(place, name, {"first": first, "until": until})

            parts = metric_columns(ask, self.dialect)
        else:
            nodes = self._nodes(place, ops, Side.DEVICE)
            for op in ops:
                if op not in nodes:
                    raise self._unknown_op(place, op, Side.DEVICE)
            asked = {"ops": list(nodes.values())}
            parts = iter([columns_of(self._ask_internal(place, "op_metrics", asked))])
        with paused_collector():
            found = [item for part in parts for item in comparison_values(part)]
        device = self._original_ids(place, Side.DEVICE, (item.op for item in found))
        partners = chain.from_iterable(map(golden_ops, found))
        golden = self._original_ids(place, Side.GOLDEN, partners)
        if not device and not golden:
            return found
        return [original_comparison(item, device, golden) for item in found]

    def states(self, run: str) -> dict[str, OpState]:
        """The state of every device op of a run, by op id, in topo order."""
        place = self._run_place(run)
        rows = self._rows(place, "run_states", {})
        own = self._original_ids(place, Side.DEVICE, (row["op"] for row in rows))
        return {own.get(row["op"], row["op"]): OpState(row["state"]) for row in rows}

    def origins(self, run: str) -> list[Origin]:
        """The origins of a run in rank order."""
        return codec.origins_value(str(self._run_record(self._run_place(run))["origins"]))

    def suspects(self, run: str) -> list[Origin]:
        """The ops of a run over the lower limit of suspicion, not guilty, in rank order."""
        text = self._run_record(self._run_place(run))["suspects"]
        return [] if text is None else codec.origins_value(text)

    def findings(self, run: str) -> list[Finding]:
        """What was found in a run, in saved order."""
        place = self._run_place(run)
        found = [finding_value(row) for row in self._rows(place, "run_findings", {})]
        own = self._original_ids(place, Side.DEVICE, (finding.op for finding in found))
        return [replace(one, op=own.get(one.op, one.op)) for one in found] if own else found

    def links(self, run: str, op: str | None = None, side: Side = Side.DEVICE) -> list[LineageLink]:
        """Lineage links, all or those of one device (or golden) op."""
        place = self._run_place(run)
        if op is None:
            rows = self._rows(place, "run_links", {})
        else:
            name = "lineage_of_device_op" if side is Side.DEVICE else "lineage_of_original_op"
            node = self._nodes(place, [op], side).get(op)
            rows = [] if node is None else self._rows(place, name, {"op": node})
        device = self._original_ids(place, Side.DEVICE, (row["device"] for row in rows))
        golden = self._original_ids(place, Side.GOLDEN, (row["original"] for row in rows))
        found = [(int(row["seq"]), _link(row)) for row in rows]
        if device or golden:
            found = [(seq, original_link(link, device, golden)) for seq, link in found]
        loose = codec.links_value(str(self._run_record(place)["loose_links"]))
        for seq, link in loose:
            end = link.device if side is Side.DEVICE else link.original
            if op is None or end == op:
                found.append((seq, link))
        if op is not None and not found:
            self._node(place, op, side)
        return [link for _, link in sorted(found, key=lambda item: item[0])]

    def run_data(self, name: str) -> RunData:
        """Everything of a run, equal to what was saved."""
        for _ in range(_TRIES):
            run = self.run(name)
            data = RunData(
                run=run,
                golden=self.graph(name, Side.GOLDEN),
                device=self.graph(name),
                links=tuple(self.links(name)),
                comparisons=tuple(self.comparisons(name)),
                states=self.states(name),
                origins=tuple(self.origins(name)),
                suspects=tuple(self.suspects(name)),
                findings=tuple(self.findings(name)),
            )
            if self.run(name) == run:  # not replaced while it was being read
                return data
        raise StoreError(
            f"the run {name!r} is replaced all the time", where=self.url, retryable=True
        )

    def find_ops(
        self, target: str, text: str, side: Side = Side.DEVICE, *, limit: int = 20
    ) -> list[str]:
        """Ids of ops whose name or type fits *text*: exact, then prefix, part, fuzzy."""
        return self._index(self._place(target), side).find(text, limit)

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
        """The answer of a named query of ``graphstore/queries`` on *target*.

        At most *limit* rows are fetched, in *timeout* seconds; None: all, in any time.
        """
        wanted = load(query, self.dialect)
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
        limits = QueryLimits(limit, timeout, cancellation)
        values.update(implied)
        if query in _KEPT and place.stamp is not None:
            key = f"{query} {stamped(place)}"
            whole = self._answers.get(key, lambda: self._whole(place, wanted, values))
            return cut(whole, limit)
        text, most = limited(wanted, limit)
        values.update(most)
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
        return self._query(cypher, values, limits, target)

    def explain(self, cypher: str, parameters: QueryParameters, target: str | None = None) -> str:
        """How the store would answer a query of :meth:`query`: its plan, as text.

        *cypher* may be the name of a named query; one that is answered on arrays is not
        planned by the database, which is said.
        """
        text = planned_text(cypher, self.dialect)
        said = "Answered on arrays in memory; the database would do this:\n\n"
        values = self._checked_query(text, parameters, target)
        limits = QueryLimits(None, parameters.timeout, parameters.cancellation)
        values = {**planned_values(cypher, self.dialect), **values}
        plan = self._plan(text, values, limits, target)
        return said + plan if cypher in ON_ARRAYS else plan

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

    def _whole(self, place: Place, query: NamedQuery, params: Mapping[str, object]) -> QueryResult:
        """The whole answer of a query of :data:`_KEPT`."""
        return self._ask(place, query, params)

    def _on_arrays(
        self, place: Place, query: NamedQuery, params: Mapping[str, object], limit: int | None
    ) -> QueryResult:
        """The answer of a query of :data:`graphstore.traversals.ON_ARRAYS`."""
        answer = ON_ARRAYS[query.name]
        if query.name not in _KEPT or place.stamp is None:
            return answer(self._asked(place, query, params, limit))
        key = f"{query.name} {stamped(place)}"
        return cut(
            self._answers.get(key, lambda: answer(self._asked(place, query, params, None))), limit
        )

    def _asked(
        self, place: Place, query: NamedQuery, params: Mapping[str, object], limit: int | None
    ) -> Asked:
        """A question for :data:`graphstore.traversals.ON_ARRAYS`."""
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
        return Asked(
            arrays,
            lambda: self._index(place, Side.DEVICE),
            lambda: self._run_outputs(place),
            lambda: self._errors_of(place),
            values,
            limit,
        )

    def _windows(self, place: Place, text: str, limit: int | None) -> Iterator[dict[str, object]]:
        """Where to look for *limit* rows, farther and farther; the last is everywhere."""
        key, content = place.graph(Side.DEVICE)
        first, edge = first_id(key), None
        if "$end_target" in text and limit is not None:
            arrays = self._quick_arrays(place, key, content)
            edge = None if arrays is None else first_edges(arrays, limit)
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

    def _parameter(self, place: Place, kind: str, name: str, value: object) -> object:
        value = plain_parameter(name, kind, value)
        side = Side.GOLDEN if kind.startswith("original ") else Side.DEVICE
        if isinstance(value, list):
            return [self._node(place, op, side) for op in value]
        return self._node(place, str(value), side) if kind.endswith("op") else value

    def _node(self, place: Place, op: str, side: Side) -> int:
        """The node id of an op that must exist."""
        nodes = self._nodes(place, [op], side)
        if op not in nodes:
            raise self._unknown_op(place, op, side)
        return nodes[op]


def _link(row: Mapping[str, Any]) -> LineageLink:
    return LineageLink(
        row["device"],
        row["original"],
        LineageRule(row["evidence"]),
        row["device_port"],
        row["original_port"],
        row["confidence"],
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names)) or "no parameters"
