"""What all Cypher stores have in common: look-ups by named query, and values from rows. A store
adds how a target is found, how a query is sent, and how rows are written."""

from __future__ import annotations

import itertools
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from graphstore.columns.link_columns import LinkColumns
from graphstore.columns.listed_ops import GraphColumns, ListedOps
from graphstore.columns.op_figures import OpFigures
from graphstore.contract import GraphInfo, RunData
from graphstore.cypher.arrow_columns import columns_of
from graphstore.cypher.listing import AskSlice, Partners, link_columns, listed_ops, op_figures
from graphstore.cypher.memory import CypherMemory
from graphstore.cypher.original_ids import golden_ops, original_comparison, original_link
from graphstore.cypher.queries import load
from graphstore.cypher.targets import TargetKeys
from graphstore.errors import NameTakenError, StoreError
from graphstore.gc_paused import gc_paused
from graphstore.model import (
    Comparison,
    Finding,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    OpState,
    Origin,
    Side,
    TensorRef,
)
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.metric_values import comparison_values
from graphstore.schema.op_blocks import BLOCK, OpReader
from graphstore.schema.run_rows import finding_value
from graphstore.schema.stored_graph import StoredGraph, first_id, graph_info
from graphstore.traverse.arrays import GraphArrays

_PORT = re.compile("0|[1-9][0-9]{0,8}")
_SLICE = 20_000
"""Rows asked for at once, so that no answer gets too big."""
_TRIES = 3
"""How often reading a whole run is retried if the run is replaced meanwhile."""


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


class CypherStore(CypherMemory):
    """The part of :class:`GraphStore` that is the same on every store with Cypher.

    With *read_only*, writing raises StoreError; *now* gives the time of what is imported.
    """

    def __init__(self, url: str, *, read_only: bool, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.url = url
        self._read_only = read_only
        self._now = now

    @abstractmethod
    def _prepare(self, name: str) -> None:
        """Make sure that *name* can be written under."""

    @abstractmethod
    def _numbered(self, graph: ModelGraph) -> StoredGraph:
        """*graph* with the key and numbers it is stored with."""

    @abstractmethod
    def _same_graph(self, name: str, stored: StoredGraph) -> GraphInfo | None:
        """The imported graph of this name, if it is whole and has this content."""

    @abstractmethod
    def _write_graph(self, stored: StoredGraph, info: GraphInfo, *, replace: bool) -> None:
        """Keep a graph under the name and time of *info*; NameTakenError as of save_graph."""

    def save_graph(
        self,
        graph: ModelGraph,
        name: str,
        *,
        replace: bool = False,
        created: str | None = None,
    ) -> GraphInfo:
        """Keep *graph* under *name*; visible in one step or not at all."""
        self._prepare(name)
        stored = self._numbered(graph)
        same_graph = self._same_graph(name, stored)
        if same_graph is not None:
            return same_graph
        info = graph_info(graph, name, created or self._now().isoformat(timespec="microseconds"))
        try:
            self._write_graph(stored, info, replace=replace)
        except NameTakenError:
            same_graph = self._same_graph(name, stored)  # another process was faster
            if same_graph is None:
                raise
            return same_graph
        return info

    def _check_allowed(self) -> None:
        if self._read_only:
            raise StoreError("the store is opened for reading only", where=self.url)

    def graph(self, target: str, side: Side = Side.DEVICE) -> ModelGraph:
        """A whole graph, equal to the one saved."""
        place = self._place(target)
        key, content = place.graph(side)
        return self._graphs.get(content, lambda: self._read_graph(place, key))

    def arrays(self, target: str, side: Side = Side.DEVICE) -> GraphArrays:
        """The graph as arrays for traversal; cached by content."""
        place = self._place(target)
        return self._arrays_of(place, *place.graph(side))

    def graph_columns(self, target: str, side: Side = Side.DEVICE) -> GraphColumns:
        """The graph without its ops, and of all of these names, types and edges."""
        place = self._place(target)
        key, content = place.graph(side)
        loaded = self._load(place, key, content)
        header, index = self._header(place, key)[0], loaded.index
        parts = (loaded.arrays, loaded.given, loaded.exact)
        return GraphColumns(header, index.names, index.kinds, *parts)

    def ops(self, target: str, ids: Sequence[str], side: Side = Side.DEVICE) -> dict[str, Op]:
        """The ops with these ids that there are, equal to those saved, by id."""
        place = self._place(target)
        key, _ = place.graph(side)
        nodes = self._nodes(place, ids, side)
        rows = self._rows(place, "op_places", {"ids": list(nodes.values())})
        places = {row["op"]: row["place"] for row in rows}
        blocks: dict[int, bytes] = {}

        def fetch(firsts: set[int]) -> None:
            params = {"graph": key, "firsts": sorted(firsts - blocks.keys())}
            if params["firsts"]:
                rows = self._rows(place, "op_blocks", params)
                blocks.update((row["first"], row["data"]) for row in rows)

        reader = OpReader(blocks.__getitem__)
        fetch({number - number % BLOCK for number in places.values()})
        fetch({first for number in places.values() for first in reader.needed(number)})
        return {op: reader.op(places[plain_text(op)]) for op in ids if op in nodes}

    def listed_ops(
        self, target: str, side: Side = Side.DEVICE, numbers: range | None = None
    ) -> Iterator[ListedOps]:
        """All ops, or those of these *numbers*, in topo order as columns, slice by slice, read as
        they are taken."""
        place = self._place(target)
        every = range(len(self._arrays_of(place, *place.graph(side)).ids))
        partners = None if place.run is None else self._partners(place, side, few=numbers)
        ask = self._ask_slices(place, side)
        return listed_ops(ask, side, every if numbers is None else numbers, partners)

    def op_figures(self, run: str) -> OpFigures:
        """The states of all device ops, and the numbers that a graph shows."""
        place = self._run_place(run)
        count = len(self._arrays_of(place, *place.graph(Side.DEVICE)).ids)
        return op_figures(self._ask_slices(place, Side.DEVICE), count)

    def _ask_slices(self, place: TargetKeys, side: Side) -> AskSlice:
        """What answers named queries about a slice of the ops of a side."""
        node = first_id(place.graph(side)[0])

        def ask(name: str, first: int, until: int) -> Any:
            query = load(name, self.dialect)
            nodes = {"first": first, "first_node": node + first, "end_node": node + until}
            return self._ask_table(place, query, {**self._implied(place, query), **nodes})

        return ask

    def makers(self, target: str, tensor: str, side: Side = Side.DEVICE) -> list[TensorRef]:
        """The outputs of ops that are called *tensor*, in topo order."""
        place = self._place(target)
        key, content = place.graph(side)
        arrays, first = self._arrays_of(place, key, content), first_id(key)
        op, colon, port = tensor.rpartition(":")
        follows = bool(colon) and op in arrays.number and _PORT.fullmatch(port) is not None
        params = {
            "first_node": first,
            "end_node": first + len(arrays.ids),
            "name": plain_text(tensor),
            "node": first + arrays.number[op] if follows else -1,
            "port": int(port) if follows else -1,
        }
        rows = self._rows(place, "tensor_makers", params)
        return [TensorRef(arrays.ids[row["topo"]], row["port"]) for row in rows]

    def _partners(self, place: TargetKeys, side: Side, few: range | None) -> Partners:
        """What the ops of *side* of a run are linked with; all of them, or a *few*."""
        other = Side.GOLDEN if side is Side.DEVICE else Side.DEVICE
        number = self._arrays_of(place, *place.graph(side)).number
        loose: dict[int, list[tuple[int, str]]] = {}
        for seq, link in self._loose_links(place):
            ends = (link.device, link.original)
            op, partner = ends if side is Side.DEVICE else ends[::-1]
            if op in number:
                loose.setdefault(number[op], []).append((seq, partner))
        key, content = place.graph(other)
        if few is None or self._loaded.known(content) is not None:
            return Partners(self._arrays_of(place, key, content).ids, loose)

        def names(numbers: Sequence[int]) -> list[str]:
            nodes = [first_id(key) + number for number in numbers]
            rows = self._rows(place, "op_places", {"ids": nodes})
            name_of = {row["id"]: row["op"] for row in rows}
            return [name_of[node] for node in nodes]

        return Partners(names, loose)

    def comparisons(self, run: str, ops: Sequence[str] | None = None) -> list[Comparison]:
        """The comparisons of a run, all or those of the device ops with these ids."""
        place = self._run_place(run)
        if ops is None:
            parts = self._all_metrics(place)
        else:
            nodes = self._nodes(place, ops, Side.DEVICE)
            for op in ops:
                if op not in nodes:
                    raise self._unknown_op(place, op, Side.DEVICE)
            params = {"ops": list(nodes.values())}
            parts = iter([columns_of(self._ask_internal(place, "op_metrics", params))])
        with gc_paused():
            comparisons = [item for part in parts for item in comparison_values(part)]
        device = self._original_ids(place, Side.DEVICE, (item.op for item in comparisons))
        partners = chain.from_iterable(map(golden_ops, comparisons))
        golden = self._original_ids(place, Side.GOLDEN, partners)
        if not device and not golden:
            return comparisons
        return [original_comparison(item, device, golden) for item in comparisons]

    def _all_metrics(self, place: TargetKeys) -> Iterator[Mapping[str, Sequence[Any]]]:
        """All tensors of a run in saved order, a slice at a time."""
        for first in itertools.count(0, _SLICE):
            answer = self._ask_internal(
                place, "run_metrics", {"first": first, "until": first + _SLICE}
            )
            if answer.rows:
                yield columns_of(answer)
            if len(answer.rows) < _SLICE:
                return

    def states(self, run: str) -> dict[str, OpState]:
        """The state of every device op of a run, by op id, in topo order."""
        place = self._run_place(run)
        rows = self._rows(place, "run_states", {})
        own = self._original_ids(place, Side.DEVICE, (row["op"] for row in rows))
        return {own.get(row["op"], row["op"]): OpState(row["state"]) for row in rows}

    def origins(self, run: str) -> list[Origin]:
        """The origins of a run in rank order."""
        return codec.records_of(Origin, self._run_record(self._run_place(run))["origins"])

    def suspects(self, run: str) -> list[Origin]:
        """The ops of a run over the lower limit of suspicion, not guilty, in rank order."""
        return codec.records_of(Origin, self._run_record(self._run_place(run))["suspects"])

    def findings(self, run: str) -> list[Finding]:
        """What was found in a run, in saved order."""
        place = self._run_place(run)
        rows = self._rows(place, "run_findings", {})
        nodes = sorted({row["node"] for row in rows if row["node"] is not None})
        # a join of few findings with all ops takes a hundred times as long
        named = self._rows(place, "op_places", {"ids": nodes}) if nodes else []
        name_of = {row["id"]: row["op"] for row in named}
        findings = [finding_value(row, name_of) for row in rows]
        own = self._original_ids(place, Side.DEVICE, (finding.op for finding in findings))
        return [replace(one, op=own.get(one.op, one.op)) for one in findings] if own else findings

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
        links = [(int(row["seq"]), _link(row)) for row in rows]
        if device or golden:
            links = [(seq, original_link(link, device, golden)) for seq, link in links]
        loose = self._loose_links(place)
        for seq, link in loose:
            end = link.device if side is Side.DEVICE else link.original
            if op is None or end == op:
                links.append((seq, link))
        if op is not None and not links:
            self._node(place, op, side)
        return [link for _, link in sorted(links, key=lambda item: item[0])]

    def link_columns(self, run: str) -> LinkColumns:
        """All lineage links as columns."""
        place = self._run_place(run)
        query = load("link_columns", self.dialect)
        table = self._ask_table(place, query, self._implied(place, query))
        return link_columns(
            table,
            {side: self._arrays_of(place, *place.graph(side)).ids for side in Side},
            self._loose_links(place),
        )

    def _loose_links(self, place: TargetKeys) -> list[tuple[int, LineageLink]]:
        """Links that no relationship can hold, each with its place among all."""
        text = self._run_record(place)["loose_links"]
        return codec.records_of(tuple[int, LineageLink], text)

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
            f"the run {name!r} keeps being replaced while it is read",
            where=self.url,
            retryable=True,
        )


def _link(row: Mapping[str, Any]) -> LineageLink:
    return LineageLink(
        row["device"],
        row["original"],
        LineageRule(row["evidence"]),
        row["device_port"],
        row["original_port"],
        row["confidence"],
    )
