"""Graphs and runs as rows of the tables in :mod:`graphstore.schema`, and back.

A row has one value per column of its table, in order; a relationship row starts with the
ids of its two ends. Both stores write exactly these rows, which are made slice by slice.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore import codec
from graphstore.algorithms import few_next_measured
from graphstore.arrays import GraphArrays
from graphstore.codec import plain_text as plain_text
from graphstore.codec import plain_texts
from graphstore.contract import GraphInfo, RunData
from graphstore.edge_columns import NO_EDGES, EdgeColumns, edge_columns, edge_kinds, places
from graphstore.finding_rows import finding_rows
from graphstore.measured import measured_ops
from graphstore.metric_rows import METRIC_SET_COLUMNS as METRIC_SET_COLUMNS
from graphstore.metric_rows import comparison_value as comparison_value
from graphstore.metric_rows import metric_set_value as metric_set_value
from graphstore.metric_rows import metric_table
from graphstore.model import (
    DType,
    LineageLink,
    LineageRule,
    ModelGraph,
    Op,
    TensorIO,
)
from graphstore.op_blocks import BLOCK, attrs_texts, op_blocks
from graphstore.tables import Columns, Row, Table
from graphstore.topo import arrays_in_order, topo_places

_INT64_MAX = 2**63 - 1
_PAIRS, _PAIRS_AN_EDGE = 1_000_000, 2
"""How many NEXT_MEASURED a run may have: so many, or so many an edge if that is more."""
_WORDS: dict[object, str | None] = {None: None} | {
    word: word.value for words in (DType, LineageRule) for word in words
}
"""Looking a member up takes a fifth of the time its ``value`` takes."""
_NUMBER_BITS = 27
"""Bits of an id that number what has it within its graph or run; the rest say which."""


@dataclass
class Records:
    """Rows by node label and by relationship type."""

    nodes: dict[str, Sequence[Row]] = field(default_factory=dict)
    rels: dict[str, Sequence[Row]] = field(default_factory=dict)

    def add(self, other: Records) -> None:
        """Append the rows of *other*."""
        for mine, theirs in ((self.nodes, other.nodes), (self.rels, other.rels)):
            for table, rows in theirs.items():
                parts = [mine[table], rows] if table in mine else [rows]
                mine[table] = Table.joined([as_table(part) for part in parts])


@dataclass(frozen=True)
class StoredGraph:
    """A graph about to be stored: its key in the store, content hash and numbering.

    ``header`` and ``blocks`` (:mod:`graphstore.op_blocks`) are its lossless form;
    ``order`` are the places of the ops in the file by their number.
    """

    graph: ModelGraph
    key: str
    content: str
    edges: EdgeColumns
    order: NDArray[np.int64]
    header: str
    blocks: tuple[bytes, ...]

    @property
    def first_id(self) -> int:
        """The node id of op number 0 and of tensor number 0."""
        return first_id(self.key)

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each op by id."""
        ops = self.graph.ops
        return {ops[place].id: number for number, place in enumerate(self.order.tolist())}

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph as arrays."""
        return arrays_in_order(self.graph, self.edges, self.order)

    def without_rows(self, *, edges: bool) -> StoredGraph:
        """The same without what its own rows are made from, but for *edges* if told."""
        return replace(self, edges=self.edges if edges else NO_EDGES, blocks=())

    def numbers(self) -> NDArray[np.int64]:
        """The number of each op by its place in the file."""
        numbers = np.empty(len(self.order), dtype=np.int64)
        numbers[self.order] = np.arange(len(self.order))
        return numbers


def as_table(rows: Sequence[Row]) -> Table:
    """*rows* as a table, which they may be already."""
    return rows if isinstance(rows, Table) else Table.of(rows)


def first_id(key: str) -> int:
    """The first of the ids that belong to the graph or run with this key.

    36 bits of its hash: two of a thousand keys are the same once in 100,000 stores, and
    then the second cannot be written.
    """
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 28 << _NUMBER_BITS


def stored_graph(graph: ModelGraph, taken: Mapping[str, str]) -> StoredGraph:
    """*graph* under its own id; where *taken* (key to content hash) has that id with
    other content, the hash is appended. Equal graphs have equal hashes.

    Raises:
        ValueError: two ops have one id, or there are more than 2^27 ops or tensors.
    """
    place = places(graph)
    edges = edge_columns(graph, place)
    if max(len(graph.ops), sum(len(op.outputs) for op in graph.ops)) >= 2**_NUMBER_BITS:
        raise ValueError(f"graph {graph.name!r} has too many ops or tensors to be stored")
    header = codec.header_text(graph)
    digest = hashlib.sha256(header.encode())
    blocks: list[bytes] = []
    for text, data in op_blocks(graph.ops, place, edges):
        digest.update(text.encode("ascii"))
        blocks.append(data)
    content = digest.hexdigest()
    key = plain_text(graph.id)
    if taken.get(key, content) != content:
        key = f"{key}+{content[:12]}"
    del place
    order = topo_places(graph, edges)
    return StoredGraph(graph, key, content, edges, order, header, tuple(blocks))


def graph_info(
    graph: ModelGraph, name: str, created: str, edges: EdgeColumns | None = None
) -> GraphInfo:
    """What ``runs`` lists of a graph stored as *name* at *created* (ISO 8601 UTC).

    *edges* are its edges, if they are known already.
    """
    return GraphInfo(
        name=name,
        id=graph.id,
        kind=graph.kind.value,
        framework=graph.framework.value,
        format=graph.format,
        ops=len(graph.ops),
        edges=sum(map(_edge_count, graph.ops)) if edges is None else edges.own,
        subgraphs=len(graph.subgraphs),
        fused_ops=sum(1 for op in graph.ops if op.is_fused),
        created=created,
        source=graph.source,
    )


def _edge_count(op: Op) -> int:
    fed = sum([ref is not None and ref.producer is not None for ref in op.inputs])
    return fed + len(op.control_inputs)


def graph_records(stored: StoredGraph) -> Records:
    """The rows of one graph."""
    graph, key = stored.graph, stored.key
    info = graph_info(graph, graph.name, "", stored.edges)
    model = plain_text(f"{graph.framework.value}:{graph.name}")
    records = Records()
    records.nodes["Model"] = [(model, plain_text(graph.name), graph.framework.value)]
    records.nodes["Graph"] = [
        (
            key,
            model,
            plain_text(graph.name),
            info.kind,
            info.framework,
            plain_text(info.format),
            plain_text(graph.sha256),
            stored.content,
            info.ops,
            info.edges,
            info.subgraphs,
            info.fused_ops,
            plain_text(graph.source),
            stored.header,
        )
    ]
    records.nodes["Op"] = _op_table(stored)
    records.nodes["OpBlock"] = [
        (stored.first_id + number, key, number * BLOCK, data)
        for number, data in enumerate(stored.blocks)
    ]
    records.nodes["Tensor"] = _tensor_table(stored)
    records.rels["FEEDS"] = _feeds_table(stored)
    nodes = stored.numbers() + stored.first_id
    controls = nodes[stored.edges.control_sources], nodes[stored.edges.control_targets]
    records.rels["CONTROLS"] = _columns_table(controls)
    return records


def import_records(stored: StoredGraph, name: str, created: str) -> Records:
    """The row that gives a stored graph its name."""
    return Records({"Import": [(name, name, stored.key, created)]})


def run_records(data: RunData, golden: StoredGraph, device: StoredGraph, run_key: str) -> Records:
    """The rows of a run kept under *run_key*, without those of its graphs.

    Raises:
        ValueError: a device op without a comparison or state; a comparison or state of
            an op the device graph does not have.
    """
    check_complete(data)
    fuses, loose = _fuses_table(data, golden, device, run_key)
    followers = _next_measured_table(data, device, run_key)
    metrics = first_id(run_key) + np.arange(len(data.comparisons), dtype=np.int64)
    number = device.number
    numbers = np.fromiter((number[item.op] for item in data.comparisons), np.int64, len(metrics))
    known = golden.number
    against = np.fromiter(
        (
            -1 if (ref := item.golden) is None else known.get(ref.op, -1)
            for item in data.comparisons
        ),
        np.int64,
        len(metrics),
    )
    there = against >= 0
    runs = Table(
        len(metrics), lambda first, until: ([run_key] * (until - first), metrics[first:until])
    )
    records = Records()
    records.nodes["Run"] = [_run_row(data, golden, device, run_key, loose, followers)]
    records.nodes["Metric"] = metric_table(
        data, there, run_key, metrics, device.first_id + numbers, _output_ids(data, device)
    )
    records.rels["FUSES"] = fuses
    records.rels["OF"] = _columns_table((metrics, device.first_id + numbers))
    records.rels["AGAINST"] = _columns_table((metrics[there], golden.first_id + against[there]))
    records.rels["COMPARED"] = runs
    _add_findings(records, data, device, run_key)
    records.rels["NEXT_MEASURED"] = Table.of(()) if followers is None else followers
    return records


def _op_table(stored: StoredGraph) -> Table:
    # only what the rows need, so that the rest can go before they are made
    ops, order, blocks, key = stored.graph.ops, stored.order, stored.blocks, stored.key
    first_node = stored.first_id

    @lru_cache(64)
    def attrs_of(block: int) -> list[str]:
        return attrs_texts(blocks[block])

    def columns(first: int, until: int) -> Columns:
        places = order[first:until].tolist()
        part = [ops[place] for place in places]
        names = [op.original_names for op in part]
        return (
            np.arange(first_node + first, first_node + until),
            [key] * len(part),
            plain_texts([op.id for op in part]),
            plain_texts([None if op.name == op.id else op.name for op in part]),
            plain_texts([op.type for op in part]),
            np.arange(first, until),
            order[first:until],
            [max(-_INT64_MAX, min(_INT64_MAX, op.sequence)) for op in part],
            plain_texts([op.subgraph for op in part]),
            [None if one is None else len(one) for one in names],
            [None if one is None else list(plain_texts(one)) for one in names],
            [attrs_of(place // BLOCK)[place % BLOCK] for place in places],
        )

    return Table(len(ops), columns)


def _tensor_table(stored: StoredGraph) -> Table:
    ops, order = stored.graph.ops, stored.order
    counts = np.fromiter((len(ops[place].outputs) for place in order.tolist()), np.int64, len(ops))
    start = np.zeros(len(ops) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    first_node = stored.first_id

    def columns(first: int, until: int) -> Columns:
        low = int(np.searchsorted(start, first, "right")) - 1
        high = int(np.searchsorted(start, until, "left"))
        part = [ops[place] for place in order[low:high].tolist()]
        cut = slice(first - int(start[low]), until - int(start[low]))
        tensors = [tensor for op in part for tensor in op.outputs][cut]
        ports = [port for op in part for port in range(len(op.outputs))][cut]
        owners = [op.id for op in part for _ in op.outputs][cut]
        origins = [tensor.origin for tensor in tensors]
        return (
            np.arange(first_node + first, first_node + until),
            np.repeat(np.arange(first_node + low, first_node + high), counts[low:high])[cut],
            ports,
            plain_texts(
                [
                    None if tensor.name == f"{op}:{port}" else tensor.name
                    for tensor, op, port in zip(tensors, owners, ports, strict=True)
                ]
            ),
            [codec.shape_text(tensor.shape) for tensor in tensors],
            [_WORDS[tensor.dtype] for tensor in tensors],
            plain_texts([tensor.layout for tensor in tensors]),
            plain_texts([None if origin is None else origin.op for origin in origins]),
            [None if origin is None else origin.port for origin in origins],
        )

    return Table(int(start[-1]), columns)


def _feeds_table(stored: StoredGraph) -> Table:
    edges = stored.edges
    nodes = stored.numbers() + stored.first_id
    kinds, names = edge_kinds(edges), edges.own_names

    def columns(first: int, until: int) -> Columns:
        return (
            nodes[edges.sources[first:until]],
            nodes[edges.targets[first:until]],
            edges.outputs[first:until],
            edges.inputs[first:until],
            [plain_text(names[edge]) if edge in names else None for edge in range(first, until)],
            kinds[first:until],
        )

    return Table(len(edges.sources), columns)


def _output_ids(data: RunData, device: StoredGraph) -> NDArray[np.int64]:
    """The node id of the tensor of each comparison; -1 where it is no output of its op."""
    ops, number = device.graph.ops, device.number
    counts = [len(ops[place].outputs) for place in device.order.tolist()]
    first = [device.first_id, *(np.cumsum(counts) + device.first_id).tolist()]
    return np.fromiter(
        (
            first[number[item.op]] + item.port
            if item.io is TensorIO.OUTPUT and 0 <= item.port < counts[number[item.op]]
            else -1
            for item in data.comparisons
        ),
        np.int64,
        len(data.comparisons),
    )


def _columns_table(columns: Sequence[NDArray[Any]]) -> Table:
    return Table(len(columns[0]), lambda first, until: [one[first:until] for one in columns])


def _fuses_table(
    data: RunData, golden: StoredGraph, device: StoredGraph, run: str
) -> tuple[Table, list[tuple[int, LineageLink]]]:
    """The links between ops that are there, and the others."""
    loose: list[tuple[int, LineageLink]] = []
    sources, targets, places = array("q"), array("q"), array("q")
    from_ids, to_ids = device.number, golden.number
    for place, link in enumerate(data.links):
        source, target = from_ids.get(link.device), to_ids.get(link.original)
        if source is None or target is None:
            loose.append((place, link))
            continue
        sources.append(source)
        targets.append(target)
        places.append(place)
    source_ids = np.asarray(sources, dtype=np.int64) + device.first_id
    target_ids = np.asarray(targets, dtype=np.int64) + golden.first_id

    def columns(first: int, until: int) -> Columns:
        links = [data.links[place] for place in places[first:until]]
        return (
            source_ids[first:until],
            target_ids[first:until],
            [run] * len(links),
            list(places[first:until]),
            [_WORDS[link.rule] for link in links],
            [link.device_port for link in links],
            [link.original_port for link in links],
            [link.confidence for link in links],
        )

    return Table(len(places), columns), loose


def check_complete(data: RunData) -> None:
    """Return if every device op has a comparison and a state, and nothing else has one.

    Raises:
        ValueError: it is not so.
    """
    ops = {op.id for op in data.device.ops}
    compared = {comparison.op for comparison in data.comparisons}
    for what, names in (("comparison", compared), ("state", data.states.keys())):
        if names != ops:
            odd = sorted(names ^ ops)
            raise ValueError(
                f"run {data.run.name!r}: every device op needs a {what} and nothing else may "
                f"have one; wrong for {len(odd)} ops, the first is {odd[0]!r}"
            )


def _run_row(
    data: RunData,
    golden: StoredGraph,
    device: StoredGraph,
    run_key: str,
    loose: Iterable[tuple[int, LineageLink]],
    followers: Table | None,
) -> Row:
    run, counts = data.run, data.run.counts
    return (
        run_key,
        plain_text(run.name),
        golden.key,
        device.key,
        run.created,
        run.verdict.value,
        run.method.value,
        plain_text(run.version),
        counts.ops,
        counts.tensors,
        counts.compared,
        counts.over,
        counts.not_compared,
        codec.run_text(run),
        codec.origins_text(data.origins),
        codec.links_text(loose),
        followers is not None,
        codec.origins_text(data.suspects) if data.suspects else None,
    )


def _add_findings(records: Records, data: RunData, device: StoredGraph, run: str) -> None:
    number = device.number
    first = first_id(run)
    ids = list(range(first, first + len(data.findings)))
    places = [number.get(one.op) for one in data.findings]
    nodes = [None if place is None else device.first_id + place for place in places]
    records.nodes["Finding"] = finding_rows(data.findings, run, ids, nodes)
    ends = zip(ids, nodes, strict=True)
    records.rels["ABOUT"] = [(one, node) for one, node in ends if node is not None]
    records.rels["FOUND"] = [(run, one) for one in ids]


def _next_measured_table(data: RunData, device: StoredGraph, run: str) -> Table | None:
    """None if there were more pairs than a store can be asked to keep."""
    measured = measured_ops(device.arrays, data.comparisons)
    limit = max(_PAIRS, _PAIRS_AN_EDGE * len(device.arrays.successor_ops))
    pairs = few_next_measured(device.arrays, measured, limit)
    if pairs is None:
        return None
    sources, targets = pairs
    node = device.first_id

    def columns(first: int, until: int) -> Columns:
        begin = sources[first:until].astype(np.int64)
        end = targets[first:until].astype(np.int64)
        return begin + node, end + node, [run] * len(begin), begin >= end

    return Table(len(sources), columns)
