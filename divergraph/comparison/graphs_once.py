"""Graphs of a comparison of many places: each file read once, each pair linked once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.graphs.lineage import Lineage, link_graphs
from graphstore.model import ModelGraph
from importers.registry import read_graph


class GraphsOnce:
    """Reads and links graphs, and keeps what it made. Files must not change meanwhile."""

    def __init__(self) -> None:
        self._read: dict[Path, ModelGraph] = {}
        self._linked: dict[tuple[int, int], Lineage] = {}

    def read(self, path: Path, options: Mapping[str, str] | None = None) -> ModelGraph:
        """The graph in a file; as :func:`importers.registry.read_graph`."""
        if options:
            return read_graph(path, options)
        if path not in self._read:
            self._read[path] = read_graph(path)
        return self._read[path]

    def link(self, golden: ModelGraph, device: ModelGraph) -> Lineage:
        """The lineage that two graphs read here tell by themselves."""
        key = id(golden), id(device)  # those of graphs kept here are not given out again
        if key not in self._linked:
            self._linked[key] = link_graphs(golden, device)
        return self._linked[key]
