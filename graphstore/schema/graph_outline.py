"""What traversals and searches need of a packed graph, without creating its ops.

The blocks of a graph are its only stored form that is read whole: names and edges are taken from
them directly. That is three times as fast as asking a database for the rows Cypher is given of the
same ops, and the same on every store.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from graphstore.columns.coded import Lists, starts
from graphstore.model import ModelGraph
from graphstore.schema.codec import plain_texts
from graphstore.schema.op_blocks import ops_of_blocks
from graphstore.schema.stored_graph import StoredGraph
from graphstore.traverse.arrays import GraphArrays, Int32
from graphstore.traverse.edge_columns import EdgeEnds, edge_columns, places
from graphstore.traverse.topological_order import arrays_in_order, topo_places


@dataclass(frozen=True, slots=True)
class GraphOutline:
    """Names as the file says them and types of ops in topo order, with ids, edges and the names of
    inputs that no op makes (of ops outside of bodies).

    Unless ``exact``, ids, names or types are not quite those of the file.
    """

    names: Sequence[str]
    types: Sequence[str]
    arrays: GraphArrays
    given: Lists
    exact: bool


def graph_outline(header: ModelGraph, blocks: Sequence[bytes]) -> GraphOutline:
    """The outline of the graph *header* whose ops are in *blocks*, in file order."""
    columns = _Columns()
    for block in blocks:
        columns.add(block)
    edges: EdgeEnds = columns.edges()
    if header.subgraphs:
        # Edges into and out of bodies follow from the whole graph; such graphs are few.
        graph = replace(header, ops=tuple(ops_of_blocks(blocks)))
        edges = edge_columns(graph, places(graph))
    order = topo_places(columns.sequence, edges)
    listed = order.tolist()
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return _outline(
        arrays_in_order(columns.ids, edges, order),
        [
            columns.ids[place] if (name := columns.names[place]) is None else name
            for place in listed
        ],
        [columns.types[place] for place in listed],
        _given(columns.given, number[_numbers(columns.given_to)], len(order)),
    )


def outline_of(stored: StoredGraph) -> GraphOutline:
    """The same of a graph whose ops are there as values."""
    ops = list(map(stored.graph.ops.__getitem__, stored.order.tolist()))
    given = [
        (ref.tensor, number)
        for number in np.sort(stored.numbers()[stored.edges.unfed]).tolist()
        for ref in ops[number].inputs
        if ref is not None and ref.producer is None
    ]
    return _outline(
        stored.arrays,
        [op.name for op in ops],
        [op.type for op in ops],
        _given([name for name, _ in given], _numbers([op for _, op in given]), len(ops)),
    )


def _outline(
    arrays: GraphArrays, names: Sequence[str], types: Sequence[str], given: Lists
) -> GraphOutline:
    """That of ops in topo order."""
    # as the database says them: what is found here is held against its answers
    raw = arrays.ids, names, types
    ids, names, types = map(plain_texts, raw)
    exact = [list(one) for one in raw] == [list(ids), list(names), list(types)]
    return GraphOutline(
        names, types, arrays if ids is arrays.ids else replace(arrays, ids=tuple(ids)), given, exact
    )


def _given(names: Sequence[str], ops: Int32, size: int) -> Lists:
    """*names* by the numbers of the *ops* whose inputs they are, of so many ops."""
    number_of: dict[str, int] = {}
    numbers = _numbers([number_of.setdefault(name, len(number_of)) for name in names])
    counts = np.bincount(ops, minlength=size)
    return Lists(starts(counts), numbers[np.argsort(ops, kind="stable")], tuple(number_of))


@dataclass(slots=True)
class _Columns:
    """The columns of all blocks so far; see :func:`graphstore.schema.op_blocks.op_blocks`."""

    ids: list[str] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    _sources: array[int] = field(default_factory=lambda: array("i"))
    _targets: array[int] = field(default_factory=lambda: array("i"))
    _named: list[tuple[str, int]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    given_to: array[int] = field(default_factory=lambda: array("i"))
    _control: list[tuple[str, int]] = field(default_factory=list)

    def add(self, block: bytes) -> None:
        """The next block; its attributes, most of the text, are not read."""
        text = zlib.decompress(block)
        ids, names, types, inputs, control, *_, sequence = json.loads(text[: text.index(b"\n")])
        first = len(self.ids)
        self.ids += ids
        self.names += names
        self.types += types
        self.sequence += [own + number for number, own in enumerate(sequence, start=first)]
        for number, refs in enumerate(inputs, start=first):
            for ref in refs or ():
                distance = ref[0] if type(ref) is list else ref
                if type(distance) is int:
                    self._sources.append(number - distance)
                    self._targets.append(number)
                elif distance is not None and len(ref) > 1:  # by name: another name or output
                    self._named.append((ref[1], number))
                elif distance is not None:
                    self.given.append(distance)
                    self.given_to.append(number)
        self._control += [
            (name, number) for number, names in enumerate(control, first) for name in names or ()
        ]

    def edges(self) -> EdgeEnds:
        """All edges but those into and out of bodies."""
        place = {op: at for at, op in enumerate(self.ids)} if self._named or self._control else {}
        for name, target in self._named:
            if name in place:
                self._sources.append(place[name])
                self._targets.append(target)
        control = [(place[name], target) for name, target in self._control if name in place]
        return EdgeEnds(
            sources=_numbers(self._sources),
            targets=_numbers(self._targets),
            control_sources=_numbers([source for source, _ in control]),
            control_targets=_numbers([target for _, target in control]),
        )


def _numbers(values: Sequence[int] | array[int]) -> Int32:
    return np.asarray(values, dtype=np.int32)
