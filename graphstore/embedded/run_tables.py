"""The tables of graphs and runs, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphstore.contract import RunData
from graphstore.embedded.arrow_rows import ArrowRows, arrow_tables
from graphstore.embedded.table_files import write_table_files
from graphstore.gc_paused import gc_paused
from graphstore.model import LineageLink, ModelGraph
from graphstore.schema import codec
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_rows import graph_records, graph_rels, import_records
from graphstore.schema.row_slices import Records, Row, Table, as_table
from graphstore.schema.run_rows import RunEnds, RunRows
from graphstore.schema.stored_graph import StoredGraph, first_id, stored_graph
from graphstore.schema.tables import NODES


def graph_keys(stored: StoredGraph) -> dict[str, object]:
    """What a manifest says of a graph."""
    return {"key": stored.key, "content": stored.content, "ops": len(stored.graph.ops)}


def import_tables(stored: StoredGraph, name: str, created: str) -> Iterator[tuple[str, Any]]:
    """(name, Arrow table or None) of a graph and of its name."""
    yield from _graph_tables([stored])
    yield from arrow_tables(import_records(stored, name, created))


class GraphPair:
    """The two graphs of runs, ready to be stored; one where they are the same.

    Raises:
        ValueError: no store can hold a graph.
    """

    def __init__(self, golden: ModelGraph, device: ModelGraph) -> None:
        self.golden = stored_graph(golden, {})
        has_its_key = plain_text(device.id) == self.golden.key
        contents = {self.golden.key: self.golden.content} if has_its_key else {}
        device_graph = stored_graph(device, contents)
        self.is_one = self.golden.key == device_graph.key
        self.device = self.golden if self.is_one else device_graph

    def without_places(self) -> Sequence[StoredGraph]:
        """Them as they are written, once nothing is looked up in them any more."""
        graphs = [self.golden] if self.is_one else [self.golden, self.device]
        return [graph.without_places() for graph in graphs]


class RunTables:
    """The tables of runs with their graphs, made when they are asked for."""

    def __init__(
        self, graphs: Sequence[StoredGraph], runs: Sequence[RunRows], metrics: Sequence[Row]
    ) -> None:
        """*metrics* are those of all *runs*."""
        self.graphs = graphs
        self._runs = runs
        self._metrics = [metrics]

    @classmethod
    def of(cls, data: RunData) -> RunTables:
        """Those of one run.

        Raises:
            ValueError: the run is not complete, or no store can hold a graph.
        """
        both = GraphPair(data.golden, data.device)
        ends = RunEnds.of(data, both.golden, both.device)
        graphs = both.without_places()
        run = RunRows(data, graphs[0], graphs[-1], plain_text(data.run.name), ends)
        return cls(graphs, [run], run.metrics())

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(name, Arrow table or None) of each; to be asked for once."""
        runs = self._runs
        yield from arrow_tables(Records({"Metric": self._metrics.pop()}))
        followers = [run.next_measured() for run in runs]
        records = [run.run(one is not None) for run, one in zip(runs, followers, strict=True)]
        findings = [row for run in runs for row in run.findings()]
        links = {
            "FUSES": Table.joined([run.links() for run in runs]),
            "NEXT_MEASURED": Table.joined([one or Table.of(()) for one in followers]),
            **_joined([run.metric_links() | run.graph_links() for run in runs]),
        }
        yield from arrow_tables(Records({"Run": records, "Finding": findings}, links))
        yield from _graph_tables(self.graphs)

    def keys(self) -> dict[str, object]:
        """What a manifest says of the two graphs."""
        golden, device = self.graphs[0], self.graphs[-1]
        return {"golden": graph_keys(golden), "device": graph_keys(device)}


def _graph_tables(graphs: Sequence[StoredGraph]) -> Iterator[tuple[str, Any]]:
    records = [graph_records(graph) for graph in graphs]
    nodes = _joined([one.nodes for one in records])
    models = list(dict.fromkeys(nodes["Model"]))
    rels = [one.rels | graph_rels(graph) for one, graph in zip(records, graphs, strict=True)]
    yield from arrow_tables(Records({**nodes, "Model": models}, _joined(rels)))


def _joined(parts: Sequence[Mapping[str, Sequence[Row]]]) -> dict[str, Sequence[Row]]:
    """The rows of all *parts*, which have the same types, by type."""
    return {kind: Table.joined([as_table(part[kind]) for part in parts]) for kind in parts[0]}


MOST_ROWS = 2**19
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
        return size <= MOST_ROWS and first_id(plain_text(data.run.name)) not in self._firsts

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
