"""The rows of a run with its graphs."""

from __future__ import annotations

from collections.abc import Iterator

from graphstore.contract import RunData
from graphstore.records import (
    Records,
    StoredGraph,
    check_complete,
    graph_records,
    plain_text,
    run_records,
    stored_graph,
)


def run_graphs(data: RunData) -> tuple[StoredGraph, StoredGraph]:
    """The golden and the device graph of a run about to be written.

    Raises:
        ValueError: the run is not complete, or no store can hold a graph.
    """
    check_complete(data)
    golden = stored_graph(data.golden, {})
    return golden, stored_graph(data.device, {golden.key: golden.content})


def run_stages(data: RunData, golden: StoredGraph, device: StoredGraph) -> Iterator[Records]:
    """The rows of the graphs of a run, then its own, made when they are asked for."""
    graphs = graph_records(golden)
    if device.key != golden.key:
        graphs.add(graph_records(device))
    graphs.nodes["Model"] = list(dict.fromkeys(graphs.nodes["Model"]))
    golden, device = golden.without_rows(edges=False), device.without_rows(edges=True)
    yield graphs
    yield run_records(data, golden, device, plain_text(data.run.name))
