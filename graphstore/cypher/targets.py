"""Finds the targets of a Cypher store, and caches what is read of them as a whole."""

from __future__ import annotations

import difflib
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from graphstore.columns.coded import Lists
from graphstore.columns.run_outputs import RunOutputs
from graphstore.contract import GraphStore, QueryResult
from graphstore.cypher.arrow_columns import table_of
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.cypher.listing import OUTPUT_COLUMNS, run_outputs
from graphstore.cypher.op_search import OpIndex
from graphstore.cypher.original_ids import may_be_escaped, original_ids
from graphstore.cypher.queries import Dialect, NamedQuery, load
from graphstore.cypher.traversals import OpErrors, op_errors
from graphstore.errors import QueryError, StoreError, UnknownNameError
from graphstore.model import ModelGraph, Side
from graphstore.recent import Recent
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_outline import GraphOutline, graph_outline
from graphstore.schema.op_blocks import BLOCK, ops_of_blocks
from graphstore.schema.stored_graph import first_id
from graphstore.traverse.arrays import GraphArrays

_SLICE = 20_000
"""Rows asked for at once, so that no answer of a server gets too big."""
_LIST_SLICE = 50_000
"""The same for rows that come in one list."""
_MANY_OPS = 50
"""Of more than so many, the whole graph is loaded to find them."""


@dataclass(frozen=True, slots=True)
class TargetKeys:
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


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """What searches and traversals of a graph run on."""

    index: OpIndex
    arrays: GraphArrays
    given: Lists
    exact: bool

    @classmethod
    def of(cls, outline: GraphOutline) -> LoadedGraph:
        """That of an *outline*."""
        arrays = outline.arrays
        index = OpIndex.of_columns(arrays.ids, outline.names, outline.types)
        return cls(index, arrays, outline.given, outline.exact)


class CypherTargets(GraphStore):
    """Finds targets of a Cypher store and reads what is kept of them in memory."""

    dialect: Dialect

    def __init__(self) -> None:
        # By content or stamp, so nothing here is ever stale. Few of each: a graph of a million
        # ops takes a gigabyte as values, a fifth of that as arrays and names.
        self._graphs: Recent[ModelGraph] = Recent(4)
        self._loaded: Recent[LoadedGraph] = Recent(8)
        self._outputs: Recent[RunOutputs] = Recent(4)
        self._errors: Recent[OpErrors] = Recent(4)
        self._answers: Recent[QueryResult] = Recent(16)

    @abstractmethod
    def _place(self, target: str) -> TargetKeys:
        """Where *target* is; UnknownNameError if nowhere."""

    @abstractmethod
    def _ask(
        self,
        place: TargetKeys,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        """The rows of a query on one target, all if there are no limits."""

    def _ask_table(self, place: TargetKeys, query: NamedQuery, params: Mapping[str, object]) -> Any:
        """The same rows as an Arrow table."""
        return table_of(self._ask(place, query, params))

    def place(self, target: str) -> TargetKeys:
        """Where *target* is, for who asks at another place and reads there."""
        return self._place(target)

    def rows_at(
        self,
        place: TargetKeys,
        query: NamedQuery,
        values: Mapping[str, object],
        limits: QueryLimits,
    ) -> QueryResult:
        """The rows of a named query at *place*, of which *values* has all parameters."""
        return self._ask(place, query, values, limits)

    def table_at(self, place: TargetKeys, query: NamedQuery, values: Mapping[str, object]) -> Any:
        """All of them as an Arrow table."""
        return self._ask_table(place, query, values)

    @abstractmethod
    def _names(self) -> list[str]:
        """Names of all runs and imported graphs."""

    def _op_count(self, place: TargetKeys) -> int:
        """How many ops the device (or only) graph has."""
        key, content = place.graph(Side.DEVICE)
        loaded = self._loaded.known(content)
        if loaded is not None:
            return len(loaded.index.ids)
        return int(self._rows(place, "graph_header", {"graph": key})[0]["ops"])

    def _errors_of(self, place: TargetKeys) -> OpErrors:
        """The errors of the ops of a run; kept if the run has a stamp."""

        def made() -> OpErrors:
            arrays = self._arrays_of(place, *place.graph(Side.DEVICE))
            return op_errors(arrays, self._run_outputs(place))

        return made() if place.stamp is None else self._errors.get(stamped(place), made)

    def _implied(self, place: TargetKeys, query: NamedQuery) -> dict[str, object]:
        """The parameters a query gets from the target."""
        implied = self._target_keys(place, query.text)
        if None in implied.values():
            raise QueryError(
                f"query {query.name} is about a run; {place.name!r} is an imported graph"
            )
        return implied

    def _target_keys(self, place: TargetKeys, cypher: str) -> dict[str, object]:
        """The keys of *place* that *cypher* mentions as parameters."""
        keys = {
            "run": place.run,
            "golden": place.golden,
            "device": place.device,
            "graph": place.device,
        }
        return {name: key for name, key in keys.items() if re.search(rf"\${name}\b", cypher)}

    def _nodes(self, place: TargetKeys, ops: Iterable[str], side: Side) -> dict[str, int]:
        """The node ids of those *ops* that there are, by op id."""
        key, content = place.graph(side)
        wanted = {op: plain_text(op) for op in ops}
        if self._loaded.known(content) is None and len(wanted) <= _MANY_OPS:
            params = {"graph": key, "names": list(wanted.values())}
            node_of = {row["op"]: row["id"] for row in self._rows(place, "op_nodes", params)}
            return {op: node_of[text] for op, text in wanted.items() if text in node_of}
        number, first = self._arrays_of(place, key, content).number, first_id(key)
        return {op: first + number[text] for op, text in wanted.items() if text in number}

    def _original_ids(self, place: TargetKeys, side: Side, ops: Iterable[str]) -> Mapping[str, str]:
        """The ids in the graph on *side* by those the database gave, where they differ."""
        if not may_be_escaped(ops):
            return {}
        key, content = place.graph(side)
        return original_ids(self._graphs.get(content, lambda: self._read_graph(place, key)))

    def _unknown_op(self, place: TargetKeys, op: str, side: Side) -> UnknownNameError:
        return UnknownNameError("op", op, near=self._index(place, side).find(op, 3))

    def _unknown_target(self, what: str, name: str) -> UnknownNameError:
        names = self._names()
        if name in names:
            return UnknownNameError(what, name, hint="it is an imported graph")
        return UnknownNameError(what, name, near=difflib.get_close_matches(name, names))

    def _run_place(self, name: str) -> TargetKeys:
        place = self._place(name)
        if place.run is None:
            raise self._unknown_target("run", name)
        return place

    def _rows(
        self, place: TargetKeys, name: str, params: Mapping[str, object]
    ) -> list[dict[str, Any]]:
        answer = self._ask_internal(place, name, params)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def _ask_internal(
        self, place: TargetKeys, name: str, params: Mapping[str, object]
    ) -> QueryResult:
        query = load(name, self.dialect)
        return self._ask(place, query, {**self._implied(place, query), **params})

    def _run_record(self, place: TargetKeys) -> dict[str, Any]:
        rows = self._rows(place, "run_record", {})
        if not rows:
            raise StoreError(f"the run {place.name!r} is damaged: its record is missing")
        return rows[0]

    def _header(self, place: TargetKeys, key: str) -> tuple[ModelGraph, int]:
        """A graph without its ops, and how many these are."""
        header = self._rows(place, "graph_header", {"graph": key})
        if not header:
            raise StoreError(f"{place.name!r} is damaged: its graph {key!r} is missing")
        return codec.record_of(ModelGraph, header[0]["header"]), header[0]["ops"]

    def _packed(self, place: TargetKeys, key: str) -> tuple[ModelGraph, list[bytes]]:
        """A graph without its ops, and these in blocks."""
        blocks: dict[int, bytes] = {}
        graph, count = self._header(place, key)
        for first in range(0, count, _SLICE):
            part = {"graph": key, "first": first, "until": first + _SLICE}
            rows = self._rows(place, "graph_blocks", part)
            blocks.update((row["first"], row["data"]) for row in rows)
        return graph, [blocks[first] for first in range(0, count, BLOCK)]

    def _read_graph(self, place: TargetKeys, key: str) -> ModelGraph:
        graph, blocks = self._packed(place, key)
        return replace(graph, ops=tuple(ops_of_blocks(blocks)))

    def _load(self, place: TargetKeys, key: str, content: str) -> LoadedGraph:
        return self._loaded.get(content, lambda: self._read_loaded(place, key, content))

    def _read_loaded(self, place: TargetKeys, key: str, content: str) -> LoadedGraph:
        """The graph *key* of that *content*."""
        del content  # for stores that keep what they load
        return LoadedGraph.of(graph_outline(*self._packed(place, key)))

    def _arrays_of(self, place: TargetKeys, key: str, content: str) -> GraphArrays:
        return self._load(place, key, content).arrays

    def _index(self, place: TargetKeys, side: Side) -> OpIndex:
        return self._load(place, *place.graph(side)).index

    def _run_outputs(self, place: TargetKeys) -> RunOutputs:
        """The compared outputs of a run; kept if the run has a stamp."""
        if place.stamp is None:
            return self._read_outputs(place)
        return self._outputs.get(stamped(place), lambda: self._read_outputs(place))

    def _read_outputs(self, place: TargetKeys) -> RunOutputs:
        query = load("run_outputs", self.dialect)
        if self.dialect is Dialect.EMBEDDED:
            return run_outputs(self._ask_table(place, query, self._implied(place, query)))
        first, rows = 0, list[Any]()
        while True:
            slice_of = {"first": first, "until": first + _LIST_SLICE}
            row: Any = self._ask_internal(place, query.name, slice_of).rows[0]
            rows.extend(row[1])
            if row[0] < _LIST_SLICE:
                rows.sort(key=itemgetter(0, 1, 10))  # topo, port, seq
                columns = tuple(row[: len(OUTPUT_COLUMNS)] for row in rows)
                return run_outputs(table_of(QueryResult(OUTPUT_COLUMNS, columns)))
            first += _LIST_SLICE


def stamped(place: TargetKeys) -> str:
    """A key for what is kept of a run; it changes when the run is written anew."""
    return f"{place.run} {place.content} {place.stamp}"
