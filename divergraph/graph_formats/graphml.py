"""Any model graph as GraphML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.graph_formats.side import ShownGraph
from graphstore.model import Metric

if TYPE_CHECKING:
    import networkx

# What XML 1.0 cannot hold, in no way of writing.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(shown: ShownGraph, path: Path) -> None:
    """Write *shown*: nodes are op ids with name, type, body, element type and shape of the
    first output, originals, and in a run state, level and metrics of the worst output."""
    import networkx as nx

    nx.write_graphml(_graph(shown), path)


def _graph(shown: ShownGraph) -> networkx.MultiDiGraph[str]:
    import networkx as nx

    graph: networkx.MultiDiGraph[str] = nx.MultiDiGraph(name=_plain(shown.label))
    ids: dict[str, str] = {}
    for op in shown.graph.ops:
        ids[op.id] = _unique(_plain(op.id), graph)
        first = op.outputs[0] if op.outputs else None
        shape = None if first is None or first.shape is None else first.shape
        graph.add_node(
            ids[op.id],
            name=_plain(op.name),
            type=_plain(op.type),
            subgraph=_plain(op.subgraph),
            dtype=first.dtype.value if first is not None and first.dtype else "",
            shape="" if shape is None else ",".join("?" if d is None else str(d) for d in shape),
            originals=_plain(",".join(op.original_names or ())),
            **_measured(shown, op.id),
        )
    for edge in shown.graph.edges():
        if edge.source in ids and edge.target in ids:
            graph.add_edge(
                ids[edge.source],
                ids[edge.target],
                kind=edge.kind.value,
                source_port=edge.source_port,
                target_port=edge.target_port,
                tensor=_plain(edge.tensor),
            )
    return graph


def _measured(shown: ShownGraph, op: str) -> dict[str, str | float]:
    row = shown.rows.get(op)
    if row is None:
        return {}
    found: dict[str, str | float] = {"topo": row.topo}
    if row.state is not None:
        found["state"] = row.state.value
    if row.level is not None:
        found["level"] = row.level.value
    if row.metrics is not None:
        for metric in Metric:
            value = row.metrics.value(metric)
            if not isinstance(value, tuple):
                found[metric.value] = value
    return found


def _plain(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _unique(name: str, graph: networkx.MultiDiGraph[str]) -> str:
    number = 2
    found = name
    while found in graph:
        found = f"{name}#{number}"
        number += 1
    return found
