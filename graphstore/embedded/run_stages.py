"""The rows of graphs and runs in the order in which they are written.

Rows are made while the engine copies those of the table before. So what takes long to make
and little memory comes after what takes long to copy, and the biggest table, the ops, when
least else is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphstore.codec import plain_text
from graphstore.contract import RunData
from graphstore.graph_rows import (
    block_rows,
    controls_table,
    feeds_table,
    graph_row,
    import_records,
    model_row,
    op_table,
    tensor_table,
)
from graphstore.records import Records
from graphstore.run_rows import RunEnds, RunRows
from graphstore.stored_graph import StoredGraph, stored_graph
from graphstore.tables import Table


def graph_keys(stored: StoredGraph) -> dict[str, object]:
    """What a manifest says of a graph."""
    return {"key": stored.key, "content": stored.content, "ops": len(stored.graph.ops)}


def graph_stages(stored: StoredGraph, name: str, created: str) -> Iterator[Records]:
    """The rows of a graph and of its name."""
    yield _tensors([stored])
    yield _blocks([stored])
    yield _ops([stored])
    yield import_records(stored, name, created)
    yield _facts([stored])
    yield _edges([stored])


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
        self._golden = golden.without_places()
        self._device = device.without_places()
        self._keys: dict[str, object] = {}

    def __iter__(self) -> Iterator[Records]:
        """To be asked for once: what the rows are made of is freed on the way."""
        golden, device = self._golden, self._device
        del self._golden, self._device
        graphs = [golden] if golden.key == device.key else [golden, device]
        yield _tensors(graphs)
        key = plain_text(self._data.run.name)
        # with a graph of its own, whose arrays go with it
        run = RunRows(self._data, golden, device.without_places(), key, self._ends)
        yield Records({"Metric": run.metrics()})
        followers = run.next_measured()
        del run
        self._keys = {"golden": graph_keys(golden), "device": graph_keys(device)}
        facts, edges = _facts(graphs), _edges(graphs)
        blocks, ops = _blocks(graphs), _ops(graphs)
        # the lossless form is freed with the rows made of it
        run = RunRows(self._data, golden.without_edges(), device.without_edges(), key, self._ends)
        del golden, device, graphs
        yield blocks
        del blocks
        yield ops
        del ops
        yield facts
        yield Records({"Run": [run.run(followers is not None)], "Finding": run.findings()})
        yield edges
        del edges
        yield Records({}, run.metric_links())  # small: beside the edges
        yield Records({}, {"FUSES": run.links(), "NEXT_MEASURED": followers or Table.of(())})

    def keys(self) -> dict[str, object]:
        """What a manifest says of the two graphs, when all rows were asked for."""
        return self._keys


def _tensors(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Tensor": Table.joined([tensor_table(graph) for graph in graphs])})


def _blocks(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"OpBlock": [row for graph in graphs for row in block_rows(graph)]})


def _ops(graphs: Sequence[StoredGraph]) -> Records:
    return Records({"Op": Table.joined([op_table(graph) for graph in graphs])})


def _facts(graphs: Sequence[StoredGraph]) -> Records:
    models = dict.fromkeys(map(model_row, graphs))
    return Records({"Model": list(models), "Graph": [graph_row(graph) for graph in graphs]})


def _edges(graphs: Sequence[StoredGraph]) -> Records:
    return Records(
        {},
        {
            "FEEDS": Table.joined([feeds_table(graph) for graph in graphs]),
            "CONTROLS": Table.joined([controls_table(graph) for graph in graphs]),
        },
    )
