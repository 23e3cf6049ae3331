"""What places of a comparison share: graphs read and linked once, a dump looked at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.inputs.sources import InputFiles
from graphstore.model import ModelGraph
from importers.dumps.contract import ANY_DUMP, DumpChoice
from importers.dumps.folder import Leaf
from importers.dumps.index import DumpIndex

_MOST_OPS = 2**19
_LEAST = 2
"""The graphs of one place are kept, however large."""


def _ops(graph: ModelGraph) -> int:
    return len(graph.ops)


class GraphsOnce(InputFiles):
    """Reads and links graphs, and keeps what it made. Files must not change meanwhile."""

    def __init__(self) -> None:
        self._walked: dict[Path, list[Leaf]] = {}
        self._read: dict[Path, ModelGraph] = {}
        self._linked: dict[tuple[int, int], Lineage] = {}
        self._scanned: dict[int, tuple[tuple[Path, DumpChoice], DumpIndex]] = {}

    def read(self, path: Path, options: Mapping[str, str] | None = None) -> ModelGraph:
        """The graph in a file; of one read with options nothing is kept."""
        if options:
            return super().read(path, options)
        if path not in self._read:
            self._read[path] = super().read(path)
            self._forget_oldest()
        return self._read[path]

    def _forget_oldest(self) -> None:
        """Ranks may have graphs of their own: keep as many as memory is likely to have room for."""
        while len(self._read) > _LEAST and sum(map(_ops, self._read.values())) > _MOST_OPS:
            forgotten = id(self._read.pop(next(iter(self._read))))
            self._scanned.pop(forgotten, None)
            for key in [key for key in self._linked if forgotten in key]:
                del self._linked[key]

    def walk(self, root: Path) -> list[Leaf]:
        """The dumps below a folder."""
        if root not in self._walked:
            self._walked[root] = super().walk(root)
        return self._walked[root]

    def link(self, golden: ModelGraph, device: ModelGraph) -> Lineage:
        """The lineage that two graphs read here tell by themselves."""
        key = id(golden), id(device)  # these stay theirs: graphs read here are kept
        if key not in self._linked:
            self._linked[key] = link_graphs(golden, device)
        return self._linked[key]

    def scan(self, path: Path, graph: ModelGraph, choice: DumpChoice = ANY_DUMP) -> DumpIndex:
        """The dumps in a folder; of each graph those asked for last are kept."""
        last = self._scanned.get(id(graph))
        if last is None or last[0] != (path, choice):
            last = (path, choice), super().scan(path, graph, choice)
            self._scanned[id(graph)] = last
        return last[1]
