"""The rows of graphs and runs in the order in which they are written.

Rows are made while the engine copies those of the table before, and where that takes longer,
graphs are packed. So what takes long to copy and little to make comes early, and what needs
the packed graphs last. The ops, the biggest table, are not made while the engine copies the
comparisons, which take most of its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphstore.contract import RunData
from graphstore.model import ModelGraph
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_rows import (
    block_rows,
    edge_tables,
    graph_rels,
    graph_row,
    import_records,
    model_row,
    op_table,
    tensor_table,
)
from graphstore.schema.row_slices import Records, Row, Table, as_table
from graphstore.schema.run_rows import RunEnds, RunRows
from graphstore.schema.stored_graph import StoredGraph, stored_graph


def graph_keys(stored: StoredGraph) -> dict[str, object]:
    """What a manifest says of a graph."""
    return {"key": stored.key, "content": stored.content, "ops": len(stored.graph.ops)}


def graph_stages(stored: StoredGraph, name: str, created: str) -> Iterator[Records]:
    """The rows of a graph and of its name, made when they are asked for."""
    graphs = [stored]
    yield _tensors(graphs)
    yield _ops(graphs)
    yield _edges(graphs)
    yield _packed(graphs)
    yield import_records(stored, name, created)


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


class RunStages:
    """The rows of runs with their graphs, made when they are asked for."""

    def __init__(
        self, graphs: Sequence[StoredGraph], runs: Sequence[RunRows], metrics: Sequence[Row]
    ) -> None:
        """*metrics* are those of all *runs*."""
        self.graphs = graphs
        self._runs = runs
        self._metrics = [metrics]

    @classmethod
    def of(cls, data: RunData) -> RunStages:
        """Those of one run.

        Raises:
            ValueError: the run is not complete, or no store can hold a graph.
        """
        both = GraphPair(data.golden, data.device)
        ends = RunEnds.of(data, both.golden, both.device)
        graphs = both.without_places()
        run = RunRows(data, graphs[0], graphs[-1], plain_text(data.run.name), ends)
        return cls(graphs, [run], run.metrics())

    def __iter__(self) -> Iterator[Records]:
        """To be asked for once."""
        graphs, runs = self.graphs, self._runs
        yield Records({"Metric": self._metrics.pop()})
        followers = [run.next_measured() for run in runs]
        yield _tensors(graphs)
        yield _ops(graphs)
        yield _edges(graphs)
        links = Table.joined([run.links() for run in runs])
        next_measured = Table.joined([one or Table.of(()) for one in followers])
        yield Records({}, {"FUSES": links, "NEXT_MEASURED": next_measured})
        records = [run.run(one is not None) for run, one in zip(runs, followers, strict=True)]
        findings = [row for run in runs for row in run.findings()]
        yield Records({"Run": records, "Finding": findings})
        yield Records({}, _joined([run.metric_links() for run in runs]))
        yield _packed(graphs)
        yield Records({}, _joined([run.graph_links() for run in runs]))

    def meanwhile(self) -> Iterator[None]:
        """Steps of work that some of the rows need."""
        for graph in self.graphs:
            yield from graph.packing

    def keys(self) -> dict[str, object]:
        """What a manifest says of the two graphs."""
        golden, device = self.graphs[0], self.graphs[-1]
        return {"golden": graph_keys(golden), "device": graph_keys(device)}


def _ops(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Op": Table.joined([op_table(graph) for graph in graphs])})


def _tensors(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Tensor": Table.joined([tensor_table(graph) for graph in graphs])})


def _edges(graphs: Sequence[StoredGraph]) -> Records:
    return Records({}, _joined([edge_tables(graph) for graph in graphs]))


def _joined(parts: Sequence[Mapping[str, Sequence[Row]]]) -> dict[str, Sequence[Row]]:
    """The rows of all *parts*, which have the same types, by type."""
    return {kind: Table.joined([as_table(part[kind]) for part in parts]) for kind in parts[0]}


def _packed(graphs: Sequence[StoredGraph]) -> Records:
    """The rows that need the lossless form."""
    return Records(
        {
            "Model": list(dict.fromkeys(map(model_row, graphs))),
            "Graph": [graph_row(graph) for graph in graphs],
            "OpBlock": [row for graph in graphs for row in block_rows(graph)],
        },
        _joined([graph_rels(graph) for graph in graphs]),
    )
