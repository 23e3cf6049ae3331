"""What places of a comparison share: graphs read and linked once, a dump looked at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.graphs.lineage import Lineage, link_graphs
from graphstore.model import ModelGraph
from importers.dumps.detect import scan_dumps
from importers.dumps.index import DumpIndex
from importers.registry import read_graph


class GraphsOnce:
    """Reads and links graphs, and keeps what it made. Files must not change meanwhile."""

    def __init__(self) -> None:
        self._read: dict[Path, ModelGraph] = {}
        self._linked: dict[tuple[int, int], Lineage] = {}
        self._scanned: dict[int, tuple[tuple[Path, int | None], DumpIndex]] = {}

    def read(self, path: Path, options: Mapping[str, str] | None = None) -> ModelGraph:
        """The graph in a file; as :func:`importers.registry.read_graph`."""
        if options:
            return read_graph(path, options)
        if path not in self._read:
            self._read[path] = read_graph(path)
        return self._read[path]

    def link(self, golden: ModelGraph, device: ModelGraph) -> Lineage:
        """The lineage that two graphs read here tell by themselves."""
        key = id(golden), id(device)  # these stay theirs: graphs read here are kept
        if key not in self._linked:
            self._linked[key] = link_graphs(golden, device)
        return self._linked[key]

    def scan(self, path: Path, graph: ModelGraph, step: int | None = None) -> DumpIndex:
        """The dumps in a folder; of each graph those asked for last are kept."""
        last = self._scanned.get(id(graph))
        if last is None or last[0] != (path, step):
            last = (path, step), scan_dumps(path, graph, step=step)
            self._scanned[id(graph)] = last
        return last[1]
