"""A graph about to be stored: its key, content hash, numbering and lossless form."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphstore.columns.coded import starts
from graphstore.contract import GraphInfo
from graphstore.model import ModelGraph, Op
from graphstore.schema import codec
from graphstore.schema.op_blocks import op_blocks
from graphstore.schema.output_columns import OutputColumns
from graphstore.traverse.arrays import GraphArrays, Int32
from graphstore.traverse.edge_columns import EdgeColumns, edge_columns, places
from graphstore.traverse.topological_order import arrays_in_order, sequences, topo_places

NUMBER_BITS = 27
"""Bits of an id that number what has it within its graph or run; the rest say which."""


@dataclass(frozen=True)
class StoredGraph:
    """A graph about to be stored: its key in the store and numbering.

    ``place`` is the place of each op in the file by id, ``order`` are these places by the
    number of the op; ``packing`` makes its lossless form when that is asked for.
    """

    graph: ModelGraph
    key: str
    place: Mapping[str, int]
    edges: EdgeColumns
    order: Int32
    packing: Packing

    @property
    def first_id(self) -> int:
        """The node id of op number 0 and of tensor number 0."""
        return first_id(self.key)

    @property
    def packed(self) -> PackedGraph:
        """Its lossless form; most of the work of storing a graph."""
        return self.packing.packed

    @property
    def content(self) -> str:
        """The hash of the graph; packs it."""
        return self.packed.content

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph as arrays."""
        return arrays_in_order([op.id for op in self.graph.ops], self.edges, self.order)

    @cached_property
    def tensor_starts(self) -> Int32:
        """The number of the first output of each op, and at the end how many tensors there are."""
        return starts(np.diff(self.outputs.start)[self.order])

    @property
    def outputs(self) -> OutputColumns:
        """The outputs of all ops, in file order."""
        return self.packing.outputs

    def nodes(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """The node ids of ops by their *numbers*."""
        return node_ids(numbers, self.first_id)

    def numbers(self) -> Int32:
        """The number of each op by its place in the file."""
        numbers = np.empty(len(self.order), dtype=np.int32)
        numbers[self.order] = np.arange(len(self.order), dtype=np.int32)
        return numbers

    def numbers_of(self, ops: Sequence[str | None]) -> Int32:
        """The numbers of the ops with these ids; -1 for None and what is not in the graph."""
        find: Callable[[str | None, int], int] = self.place.get  # type: ignore[assignment]
        places = np.fromiter(map(find, ops, repeat(-1)), np.int32, len(ops))
        # the last place is that of -1
        return np.append(self.numbers(), np.int32(-1))[places]

    def without_places(self) -> StoredGraph:
        """The same without the places of its ops by id, which are big."""
        return replace(self, place={})


def first_id(key: str) -> int:
    """The first of the ids that belong to the graph or run with this key.

    36 bits of its hash: two of a thousand keys are the same once in 100,000 stores, and
    then the second cannot be written.
    """
    digest = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 28 << NUMBER_BITS


def node_ids(numbers: NDArray[Any], first: int) -> NDArray[np.int64]:
    """The node ids of what has these *numbers*; *first* is that of number 0."""
    return numbers.astype(np.int64) + first


def stored_graph(graph: ModelGraph, contents: Mapping[str, str]) -> StoredGraph:
    """*graph* under its own id; where *contents* (key to content hash) has that id with
    other content, the hash is appended.

    Raises:
        ValueError: two ops have one id, or there are more than 2^27 ops or tensors.
    """
    place = places(graph)
    edges = edge_columns(graph, place)
    key = codec.plain_text(graph.id)
    order = topo_places(sequences(graph), edges)
    stored = StoredGraph(graph, key, place, edges, order, Packing(graph, edges))
    if max(len(graph.ops), len(stored.outputs)) >= 2**NUMBER_BITS:
        raise ValueError(f"graph {graph.name!r} has too many ops or tensors to be stored")
    if key in contents and contents[key] != stored.content:
        return replace(stored, key=f"{key}+{stored.content[:12]}")
    return stored


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
        fused_ops=sum(op.is_fused for op in graph.ops if op.original_names),
        created=created,
        source=graph.source,
    )


def _edge_count(op: Op) -> int:
    fed = sum([ref is not None and ref.producer is not None for ref in op.inputs])
    return fed + len(op.control_inputs)


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """The lossless form of a graph, and the hash of it: equal graphs have equal hashes."""

    header: str
    blocks: tuple[bytes, ...]
    content: str


class Packing:
    """Makes the lossless form of *graph*, whose edges are *edges*, when it is first asked for: most
    of the work of storing it."""

    def __init__(self, graph: ModelGraph, edges: EdgeColumns) -> None:
        self._graph, self._edges = graph, edges

    @cached_property
    def outputs(self) -> OutputColumns:
        """The outputs of all ops, in file order."""
        return OutputColumns.of(self._graph.ops)

    @cached_property
    def packed(self) -> PackedGraph:
        """The lossless form."""
        header = codec.text_of(replace(self._graph, ops=()))
        digest = hashlib.sha256(header.encode())
        blocks: list[bytes] = []
        for text, data in op_blocks(self._graph.ops, self._edges, self.outputs):
            digest.update(text)
            blocks.append(data)
        return PackedGraph(header, tuple(blocks), digest.hexdigest())
