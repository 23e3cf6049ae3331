"""The rows of runs with their graphs, and of several entries in one database."""

from __future__ import annotations

from collections.abc import Iterable

from graphstore.contract import GraphStore, RunData
from graphstore.embedded.entry_facts import entry_info
from graphstore.embedded.folders import Entry
from graphstore.records import (
    Records,
    StoredGraph,
    graph_records,
    import_records,
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


def merged_records(store: GraphStore, entries: Iterable[Entry]) -> Records:
    """The rows of several entries of *store*, under their names of now; equal graphs once."""
    taken: dict[str, str] = {}
    merged = Records()
    for entry in entries:
        if entry.kind == "runs":
            merged.add(run_with_graphs(store.run_data(entry.name), taken)[0])
        else:
            stored = stored_graph(store.graph(entry.name), taken)
            merged.add(_fresh_graph(stored, taken))
            merged.add(import_records(stored, entry.name, entry_info(entry).created))
    merged.nodes["Model"] = list(dict.fromkeys(merged.nodes["Model"]))
    return merged


def _fresh_graph(stored: StoredGraph, taken: dict[str, str]) -> Records:
    if stored.key in taken:
        return Records()
    taken[stored.key] = stored.content
    return graph_records(stored)
