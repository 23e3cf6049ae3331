"""Runs kept together: those of the same two graphs in the same tables, which hold these once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphstore.contract import RunData
from graphstore.embedded.arrow_rows import ArrowRows
from graphstore.embedded.run_tables import GraphPair, RunTables
from graphstore.embedded.table_files import write_table_files
from graphstore.gc_paused import gc_paused
from graphstore.model import LineageLink, ModelGraph
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.run_rows import RunEnds, RunRows
from graphstore.schema.stored_graph import StoredGraph, first_id
from graphstore.schema.tables import NODES

_MOST_ROWS = 2**19
"""Tensors of the runs kept together: the engine takes relationships into memory at once."""
_MOST_OPEN_OPS = 2**18
"""Ops of the graphs whose runs may come in turns: larger ones must come one after the other."""
_COLUMNS = next(node.columns for node in NODES if node.label == "Metric")


class SharedRuns:
    """The runs of the same tables as they come, in far less memory than as values."""

    def __init__(self, golden: ModelGraph, device: ModelGraph) -> None:
        self.models = golden, device
        self.manifests: dict[str, Mapping[str, Any]] = {}
        self.size = 0
        self._graphs = GraphPair(golden, device)
        self._rows: list[RunRows] = []
        self._metrics = ArrowRows(_COLUMNS)
        self._firsts: set[int] = set()
        self._links: tuple[LineageLink, ...] = ()

    @property
    def ops(self) -> int:
        """How many ops both graphs have."""
        return sum(len(model.ops) for model in self.models)

    def fits(self, data: RunData) -> bool:
        """True if a run may be kept with these, too."""
        size = self.size + len(data.comparisons)
        return size <= _MOST_ROWS and first_id(plain_text(data.run.name)) not in self._firsts

    def add(self, data: RunData) -> None:
        """One more run.

        Raises:
            ValueError: it is not complete.
        """
        golden, device = self._graphs.golden, self._graphs.device
        key = plain_text(data.run.name)
        rows = RunRows(data, golden, device, key, RunEnds.of(data, golden, device))
        self._metrics.add(rows.metrics())
        if data.links != self._links:  # mostly they are the same, and in memory once
            self._links = data.links
        self._rows.append(rows.without_comparisons(self._links))
        self._firsts.add(first_id(key))
        self.size += len(data.comparisons)
        self.manifests[data.run.name] = {"kind": "run", "run": codec.encoded(data.run)}

    @property
    def graphs(self) -> Sequence[StoredGraph]:
        """The graphs as they are written."""
        return self._graphs.without_places()

    def write(self, folder: Path) -> None:
        """Write the tables to *folder*; the runs are here no more."""
        tables = RunTables(self.graphs, self._rows, self._metrics)
        write_table_files(folder, tables)
        keys = tables.keys()
        self.manifests = {name: {**run, **keys} for name, run in self.manifests.items()}


class SavingTogether:
    """Takes runs of any graphs as they come and writes them with *save*, some at a time."""

    def __init__(self, save: Callable[[SharedRuns], None]) -> None:
        self._save = save
        self._open: list[SharedRuns] = []

    def add(self, data: RunData) -> None:
        """One more run; what it does not fit into is written."""
        with gc_paused():
            shared = self._one_for(data)
            shared.add(data)

    def finish(self) -> None:
        """Write what is left."""
        while self._open:
            self._save(self._open.pop(0))

    def _one_for(self, data: RunData) -> SharedRuns:
        models = data.golden, data.device
        shared_runs = next((one for one in self._open if one.models == models), None)
        if shared_runs is not None and not shared_runs.fits(data):
            self._open.remove(shared_runs)
            self._save(shared_runs)
            shared_runs = None
        if shared_runs is None:
            shared_runs = SharedRuns(*models)
            while (
                self._open and shared_runs.ops + sum(one.ops for one in self._open) > _MOST_OPEN_OPS
            ):
                self._save(self._open.pop(0))
            self._open.append(shared_runs)
        return shared_runs
