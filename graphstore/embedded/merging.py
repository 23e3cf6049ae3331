"""The rows of a run with its graphs."""

from __future__ import annotations

from graphstore.contract import RunData
from graphstore.records import (
    Records,
    StoredGraph,
    graph_records,
    plain_text,
    run_records,
    stored_graph,
)


def run_with_graphs(
    data: RunData, taken: dict[str, str]
) -> tuple[Records, StoredGraph, StoredGraph]:
    """The rows of a run and of those of its graphs that *taken* has not; added there."""
    golden = stored_graph(data.golden, taken)
    records = _fresh_graph(golden, taken)
    device = stored_graph(data.device, taken)
    records.add(_fresh_graph(device, taken))
    records.nodes["Model"] = list(dict.fromkeys(records.nodes.get("Model", [])))
    records.add(run_records(data, golden, device, plain_text(data.run.name)))
    return records, golden, device


def _fresh_graph(stored: StoredGraph, taken: dict[str, str]) -> Records:
    if stored.key in taken:
        return Records()
    taken[stored.key] = stored.content
    return graph_records(stored)
