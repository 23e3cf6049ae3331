"""The rows of graphs and runs in the order in which they are written.

Rows are made while the engine copies those of the table before, and where that takes longer,
graphs are packed. So what takes long to copy and little to make comes early, and what needs
the packed graphs last. The ops, the biggest table, are not made while the engine copies the
comparisons, which take most of its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphstore.contract import RunData
from graphstore.schema.codec import plain_text
from graphstore.schema.graph_rows import (
    block_rows,
    controls_table,
    feeds_table,
    graph_row,
    import_records,
    model_row,
    op_table,
    tensor_table,
)
from graphstore.schema.row_slices import Records, Table
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
    yield import_records(stored, name, created)
    yield _packed(graphs)


class RunStages:
    """The rows of a run with its graphs, made when they are asked for.

    Raises:
        ValueError: the run is not complete, or no store can hold a graph.
    """

    def __init__(self, data: RunData) -> None:
        self._data = data
        golden = stored_graph(data.golden, {})
        has_its_key = plain_text(data.device.id) == golden.key
        device = stored_graph(data.device, {golden.key: golden.content} if has_its_key else {})
        self._ends = RunEnds.of(data, golden, device)
        graphs = [golden] if golden.key == device.key else [golden, device]
        self._graphs = [graph.without_places() for graph in graphs]

    def __iter__(self) -> Iterator[Records]:
        """To be asked for once."""
        graphs = self._graphs
        key = plain_text(self._data.run.name)
        run = RunRows(self._data, graphs[0], graphs[-1], key, self._ends)
        yield Records({"Metric": run.metrics()})
        followers = run.next_measured()
        yield _tensors(graphs)
        yield _ops(graphs)
        yield _edges(graphs)
        yield Records({}, {"FUSES": run.links(), "NEXT_MEASURED": followers or Table.of(())})
        yield Records({"Run": [run.run(followers is not None)], "Finding": run.findings()})
        yield Records({}, run.metric_links())
        yield _packed(graphs)

    def meanwhile(self) -> Iterator[None]:
        """Steps of work that some of the rows need."""
        for graph in self._graphs:
            yield from graph.packing

    def keys(self) -> dict[str, object]:
        """What a manifest says of the two graphs."""
        golden, device = self._graphs[0], self._graphs[-1]
        return {"golden": graph_keys(golden), "device": graph_keys(device)}


def _ops(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Op": Table.joined([op_table(graph) for graph in graphs])})


def _tensors(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Tensor": Table.joined([tensor_table(graph) for graph in graphs])})


def _edges(graphs: Sequence[StoredGraph]) -> Records:
    return Records(
        {},
        {
            "FEEDS": Table.joined([feeds_table(graph) for graph in graphs]),
            "CONTROLS": Table.joined([controls_table(graph) for graph in graphs]),
        },
    )


def _packed(graphs: Sequence[StoredGraph]) -> Records:
    """The rows that need the lossless form."""
    return Records(
        {
            "Model": list(dict.fromkeys(map(model_row, graphs))),
            "Graph": [graph_row(graph) for graph in graphs],
            "OpBlock": [row for graph in graphs for row in block_rows(graph)],
        }
    )
