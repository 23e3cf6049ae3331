"""A graph of the store as a networkx graph, and as GraphML."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divergraph.ask import op_rows
from graphstore.contract import GraphStore
from graphstore.model import Metric, Side
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx


def to_networkx(
    store: GraphStore, target: str, side: Side = Side.DEVICE
) -> networkx.MultiDiGraph[str]:
    """One side of a run, or an imported graph, as a networkx MultiDiGraph.

    Nodes are op ids with name, type, topo, dtype, fused, originals and, in a run, state,
    level, the metrics of the worst output, and role, guilt and the numbers behind them
    (absent where unknown or not finite). Edges carry kind
    (data, control, call), source_port, target_port and tensor.

    Raises:
        UnknownNameError: no such run or graph.
    """
    import networkx as nx

    stored = store.graph(target, side)
    graph: networkx.MultiDiGraph[str] = nx.MultiDiGraph(name=stored.name, target=target)
    for row in op_rows(store, target, side):
        graph.add_node(row.id, **_node(row))
    for edge in stored.edges():
        if edge.source in graph and edge.target in graph:
            graph.add_edge(
                edge.source,
                edge.target,
                kind=edge.kind.value,
                source_port=edge.source_port,
                target_port=edge.target_port,
                tensor=edge.tensor,
            )
    return graph


def write_graphml(store: GraphStore, target: str, path: Path, side: Side = Side.DEVICE) -> None:
    """Write :func:`to_networkx`'s graph as GraphML (lists become comma-joined text)."""
    import networkx as nx

    graph = to_networkx(store, target, side)
    for _, attributes in graph.nodes(data=True):
        for key, value in attributes.items():
            if isinstance(value, tuple | list):
                attributes[key] = ",".join(str(item) for item in value)
    nx.write_graphml(graph, path)


def _node(row: OpRow) -> dict[str, Any]:
    node: dict[str, Any] = {
        "name": row.name,
        "type": row.type,
        "topo": row.topo,
        "subgraph": row.subgraph,
        "dtype": row.dtype,
        "fused": row.fused,
        "originals": row.originals,
    }
    if row.state is not None:
        node["state"] = row.state.value
    if row.level is not None:
        node["level"] = row.level.value
    if row.gain is not None:
        node["gain"] = row.gain
    if row.split is not None:
        node["role"], node["guilt"] = row.split.role.value, row.split.guilt.value
        numbers = row.split.numbers.items()
        node |= {name: part for name, part in numbers if part is not None and math.isfinite(part)}
    if row.metrics is not None:
        for metric in Metric:
            value = row.metrics.value(metric)
            if not isinstance(value, tuple) and math.isfinite(value):
                node[metric.value] = value
    return node
