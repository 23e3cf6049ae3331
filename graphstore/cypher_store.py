"""What every Cypher store answers alike: look-ups by named query, values from rows.

A store adds how a target is found, how a query is sent, and how rows are written.
"""

from __future__ import annotations

import difflib
import itertools
import re
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

import numpy as np

from graphstore import codec
from graphstore.algorithms import first_edges
from graphstore.arrays import GraphArrays, Int32, arrays_from_edges
from graphstore.cancellation import Cancellation
from graphstore.collector import paused_collector
from graphstore.contract import GraphStore, ListedOp, QueryParameters, QueryResult, RunData
from graphstore.cypher_text import explained
from graphstore.errors import QueryError, StoreError, UnknownNameError
from graphstore.finding_rows import finding_value
from graphstore.listing import listed_ops
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
from graphstore.op_search import OpIndex
from graphstore.original_ids import (
    golden_ops,
    may_be_escaped,
    original_comparison,
    original_ids,
    original_link,
)
from graphstore.queries import WINDOW, Dialect, NamedQuery, load
from graphstore.query_limits import (
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
from graphstore.read_only import check_read_only
from graphstore.records import comparison_value, first_id, plain_text
from graphstore.run_outputs import RunOutputs
from graphstore.traversals import ON_ARRAYS, Asked, OpErrors, op_errors

_SLICE = 20_000
"""Rows asked for at once, so that no answer of a server gets too big."""
_MANY_OPS = 50
"""From so many on, ops are found in the list of all of them."""
_KEPT = (
    "errors_by_type",
    "first_diverging",
    "not_compared_by_reason",
    "ops_by_type",
    "sides",
    "unlinked_ops",
)
"""Queries that look at a whole run for a few rows: these are kept, a run does not change."""
_LIST_SLICE = 50_000
"""The same for rows that come in one list, or sorted by the embedded engine."""

_TRIES = 3
"""How often a run that is replaced while it is read whole is read again."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows of a target are: node keys of its run and graphs.

    ``golden`` is None and ``run`` is None for an imported graph; ``content`` is the hash
    of the device (or only) graph and ``golden_content`` of the other. ``stamp`` changes
    whenever the run is written anew; without one nothing of the run is kept in memory.
    """

    name: str
    device: str
    content: str
    run: str | None = None
    golden: str | None = None
    golden_content: str | None = None
    stamp: str | None = None

    def graph(self, side: Side) -> tuple[str, str]:
        """(key, content hash) of the graph on *side*; an imported graph has one side."""
        if side is Side.GOLDEN and self.golden is not None and self.golden_content is not None:
            return self.golden, self.golden_content
        return self.device, self.content


class CypherStore(GraphStore):
    """The part of :class:`GraphStore` that runs on named queries."""

    dialect: Dialect

    def __init__(self) -> None:
        self._arrays: _Recent[GraphArrays] = _Recent(8)
        self._graphs: _Recent[ModelGraph] = _Recent(4)
        self._indexes: _Recent[OpIndex] = _Recent(8)
        self._outputs: _Recent[RunOutputs] = _Recent(4)
        self._errors: _Recent[OpErrors] = _Recent(4)
        self._answers: _Recent[QueryResult] = _Recent(16)

    @abstractmethod
    def _place(self, target: str) -> Place:
        """Where *target* is; UnknownNameError if nowhere."""

    @abstractmethod
    def _ask(
        self,
        place: Place,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        """The rows of a query on one target, all if there are no limits."""

    @abstractmethod
    def _names(self) -> list[str]:
        """Names of all runs and imported graphs."""

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
            rows = self._slices(place, "run_metrics", {})
        else:
            nodes = self._nodes(place, ops, Side.DEVICE)
            for op in ops:
                if op not in nodes:
                    raise self._unknown_op(place, op, Side.DEVICE)
            rows = self._rows(place, "op_metrics", {"ops": list(nodes.values())})
        with paused_collector():
            found = [comparison_value(row) for row in rows]
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
        values.update(implied)
        limits = QueryLimits(limit, timeout, cancellation)
        text = limited(wanted, limit)
        if query in _KEPT and place.stamp is not None:
            key = f"{query} {_stamped(place)}"
            whole = self._answers.get(key, lambda: self._ask(place, wanted, values))
            return cut(whole, limit)
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

    def _on_arrays(
        self, place: Place, query: NamedQuery, params: Mapping[str, object], limit: int | None
    ) -> QueryResult:
        """The answer of a query of :data:`graphstore.traversals.ON_ARRAYS`."""
        answer = ON_ARRAYS[query.name]
        if query.name not in _KEPT or place.stamp is None:
            return answer(self._asked(place, query, params, limit))
        key = f"{query.name} {_stamped(place)}"
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
        arrays, first = self._arrays.known(content), first_id(key)
        edge = None
        if "$end_target" in text and arrays is not None and limit is not None:
            edge = first_edges(arrays, limit)
        if edge is not None:
            yield window_values(text, first, edge[0] + 1, edge)
        else:
            for end in windows(limit, self._op_count(place)):
                yield window_values(text, first, end)

    def _op_count(self, place: Place) -> int:
        """How many ops the device (or only) graph has."""
        key, content = place.graph(Side.DEVICE)
        known = self._indexes.known(content)
        if known is not None:
            return len(known.ids)
        return int(self._rows(place, "graph_header", {"graph": key})[0]["ops"])

    def _errors_of(self, place: Place) -> OpErrors:
        """The errors of the ops of a run; kept if the run has a stamp."""

        def made() -> OpErrors:
            arrays = self._arrays_of(place, *place.graph(Side.DEVICE))
            return op_errors(arrays, self._run_outputs(place))

        return made() if place.stamp is None else self._errors.get(_stamped(place), made)

    def _implied(self, place: Place, query: NamedQuery) -> dict[str, object]:
        """The parameters a query gets from the target."""
        implied = self._target_keys(place, query.text)
        if None in implied.values():
            raise QueryError(
                f"query {query.name} is about a run; {place.name!r} is an imported graph"
            )
        return implied

    def _target_keys(self, place: Place, cypher: str) -> dict[str, object]:
        """The keys of *place* that *cypher* mentions as parameters."""
        keys = {
            "run": place.run,
            "golden": place.golden,
            "device": place.device,
            "graph": place.device,
        }
        return {name: key for name, key in keys.items() if re.search(rf"\${name}\b", cypher)}

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

    def _nodes(self, place: Place, ops: Iterable[str], side: Side) -> dict[str, int]:
        """The node ids of those *ops* that there are, by op id."""
        key, content = place.graph(side)
        wanted = {op: plain_text(op) for op in ops}
        arrays = self._arrays.known(content)
        if arrays is not None:
            number: Mapping[str, int] = arrays.number
        elif len(wanted) > _MANY_OPS:
            names = set(wanted.values())
            ids = self._index(place, side).ids
            number = {op: place for place, op in enumerate(ids) if op in names}
        else:
            asked = {"graph": key, "names": list(wanted.values())}
            known = {row["op"]: row["id"] for row in self._rows(place, "op_nodes", asked)}
            return {op: known[text] for op, text in wanted.items() if text in known}
        first = first_id(key)
        return {op: first + number[text] for op, text in wanted.items() if text in number}

    def _original_ids(self, place: Place, side: Side, ops: Iterable[str]) -> Mapping[str, str]:
        """The ids in the graph on *side* by those the database gave, where they differ."""
        if not may_be_escaped(ops):
            return {}
        key, content = place.graph(side)
        return original_ids(self._graphs.get(content, lambda: self._read_graph(place, key)))

    def _unknown_op(self, place: Place, op: str, side: Side) -> UnknownNameError:
        return UnknownNameError("op", op, near=self._index(place, side).find(op, 3))

    def _unknown_target(self, what: str, name: str) -> UnknownNameError:
        names = self._names()
        if name in names:
            return UnknownNameError(what, name, hint="it is an imported graph")
        return UnknownNameError(what, name, near=difflib.get_close_matches(name, names))

    def _run_place(self, name: str) -> Place:
        place = self._place(name)
        if place.run is None:
            raise self._unknown_target("run", name)
        return place

    def _rows(self, place: Place, name: str, params: Mapping[str, object]) -> list[dict[str, Any]]:
        answer = self._ask_internal(place, name, params)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def _ask_internal(self, place: Place, name: str, params: Mapping[str, object]) -> QueryResult:
        query = load(name, self.dialect)
        return self._ask(place, query, {**self._implied(place, query), **params})

    def _slices(
        self, place: Place, name: str, params: Mapping[str, object]
    ) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        first = 0
        while True:
            part = self._rows(place, name, {**params, "first": first, "until": first + _SLICE})
            rows.extend(part)
            if len(part) < _SLICE:
                return rows
            first += _SLICE

    def _run_record(self, place: Place) -> dict[str, Any]:
        rows = self._rows(place, "run_record", {})
        if not rows:
            raise StoreError(f"the run {place.name!r} is damaged: its record is missing")
        return rows[0]

    def _read_graph(self, place: Place, key: str) -> ModelGraph:
        header = self._rows(place, "graph_header", {"graph": key})
        if not header:
            raise StoreError(f"{place.name!r} is damaged: its graph {key!r} is missing")
        blocks: dict[int, bytes] = {}
        count = header[0]["ops"]
        for first in range(0, count, _SLICE):
            part = {"graph": key, "first": first, "until": first + _SLICE}
            rows = self._rows(place, "graph_blocks", part)
            blocks.update((row["first"], row["data"]) for row in rows)
        return codec.graph_value(header[0]["header"], OpReader(blocks.__getitem__).all_ops(count))

    def _arrays_of(self, place: Place, key: str, content: str) -> GraphArrays:
        return self._arrays.get(content, lambda: self._read_arrays(place, key, content))

    def _read_arrays(self, place: Place, key: str, content: str) -> GraphArrays:
        index = self._indexes.get(content, lambda: self._read_index(place, key))
        return arrays_from_edges(
            index.ids,
            self._pairs(place, "feed_numbers", key),
            self._pairs(place, "control_numbers", key),
        )

    def _pairs(self, place: Place, name: str, key: str) -> tuple[Int32, Int32]:
        rows = self._rows(place, name, {"graph": key})
        pairs = rows[0]["pairs"] if rows else None
        sources, targets = np.divmod(np.asarray(pairs or [], dtype=np.int64), 2**32)
        return sources.astype(np.int32), targets.astype(np.int32)

    def _index(self, place: Place, side: Side) -> OpIndex:
        key, content = place.graph(side)
        return self._indexes.get(content, lambda: self._read_index(place, key))

    def _read_index(self, place: Place, key: str) -> OpIndex:
        ordered = list[Any]()
        for first in itertools.count(0, _LIST_SLICE):
            slice_of = {"graph": key, "first": first, "until": first + _LIST_SLICE}
            part: Any = self._ask_internal(place, "graph_order", slice_of).rows
            if self.dialect is Dialect.NEO4J:
                part = [row[1:] for row in sorted(part[0][0])]
            ordered.extend(part)
            if len(part) < _LIST_SLICE:
                break
        return OpIndex.of(ordered)

    def _run_outputs(self, place: Place) -> RunOutputs:
        """The compared outputs of a run; kept if the run has a stamp."""
        if place.stamp is None:
            return self._read_outputs(place)
        return self._outputs.get(_stamped(place), lambda: self._read_outputs(place))

    def _read_outputs(self, place: Place) -> RunOutputs:
        if self.dialect is Dialect.EMBEDDED:
            found = list[Any]()
            for begin in range(0, len(self._index(place, Side.DEVICE).ids), _LIST_SLICE):
                slice_of = {"first": begin, "until": begin + _LIST_SLICE}
                found.extend(self._ask_internal(place, "run_outputs", slice_of).rows)
            return RunOutputs.of(found)
        first, rows = 0, list[Any]()
        while True:
            slice_of = {"first": first, "until": first + _LIST_SLICE}
            row: Any = self._ask_internal(place, "run_outputs", slice_of).rows[0]
            rows.extend(row[1])
            if row[0] < _LIST_SLICE:
                rows.sort(key=itemgetter(0, 1, 10))  # topo, port, seq
                return RunOutputs.of([row[:10] for row in rows])
            first += _LIST_SLICE


def _stamped(place: Place) -> str:
    return f"{place.run} {place.content} {place.stamp}"


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


class _Recent(Generic[_T]):
    """The few values asked for last, safe for threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, _T] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, key: str) -> _T | None:
        """The value, if it is here."""
        with self._lock:
            return self._values.get(key)

    def get(self, key: str, make: Callable[[], _T]) -> _T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        with paused_collector():
            value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value
