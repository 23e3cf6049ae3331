"""The lossless form of a graph, made a piece at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphstore.model import ModelGraph
from graphstore.schema import codec
from graphstore.schema.op_blocks import op_blocks
from graphstore.traverse.edge_columns import EdgeColumns


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """The lossless form of a graph, and the hash of it: equal graphs have equal hashes."""

    header: str
    blocks: tuple[bytes, ...]
    content: str


class Packing:
    """Makes the lossless form of *graph*: most of the work of storing it.

    *edges* are those of the graph. An iterator: each step packs a few hundred ops, for who
    has something to wait for meanwhile.
    """

    def __init__(self, graph: ModelGraph, edges: EdgeColumns) -> None:
        self._made: PackedGraph | None = None
        self._steps = self._pack(graph, edges)

    def __iter__(self) -> Iterator[None]:
        return self._steps

    def whole(self) -> PackedGraph:
        """The lossless form; makes what is left of it."""
        for _ in self._steps:
            pass
        if self._made is None:
            raise RuntimeError("packing the graph was broken off by an error")
        return self._made

    def _pack(self, graph: ModelGraph, edges: EdgeColumns) -> Iterator[None]:
        header = codec.text_of(replace(graph, ops=()))
        digest = hashlib.sha256(header.encode())
        blocks: list[bytes] = []
        for text, data in op_blocks(graph.ops, edges):
            digest.update(text)
            blocks.append(data)
            yield
        self._made = PackedGraph(header, tuple(blocks), digest.hexdigest())
