"""Any model graph as a networkx graph, and as GraphML."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divergraph.graph_formats.side import ShownGraph
from graphstore.model import Metric, Op
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx

# What XML 1.0 cannot hold, in no way of writing.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_networkx(shown: ShownGraph) -> networkx.MultiDiGraph[str]:
    """*shown* as a networkx MultiDiGraph.

    Nodes are op ids with name, type, subgraph, dtype and shape of the first output, originals;
    of a store also topo and fused, and in a run state, level, the metrics of the worst output,
    and role, guilt and the numbers behind them (absent where unknown or not finite). Edges
    carry kind (data, control, call), source_port, target_port and tensor.
    """
    import networkx as nx

    graph: networkx.MultiDiGraph[str] = nx.MultiDiGraph(name=shown.label)
    for op in shown.graph.ops:
        row = shown.rows.get(op.id)
        graph.add_node(op.id, **_declared(op) | ({} if row is None else _measured(row)))
    for edge in shown.graph.edges():
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


def write_graphml(shown: ShownGraph, path: Path) -> None:
    """Write :func:`as_networkx` of *shown* as GraphML: tuples become text with commas, and
    what XML cannot hold a replacement character."""
    import networkx as nx

    graph = as_networkx(shown)
    plain: networkx.MultiDiGraph[str] = nx.MultiDiGraph(name=_text(shown.label))
    ids: dict[str, str] = {}
    for op, attributes in graph.nodes(data=True):
        ids[op] = _unique(_text(op), plain)
        plain.add_node(ids[op], **{key: _text(value) for key, value in attributes.items()})
    for source, target, attributes in graph.edges(data=True):
        texts = {key: _text(value) for key, value in attributes.items()}
        plain.add_edge(ids[source], ids[target], **texts)
    nx.write_graphml(plain, path)


def _declared(op: Op) -> dict[str, Any]:
    first = op.outputs[0] if op.outputs else None
    return {
        "name": op.name,
        "type": op.type,
        "subgraph": op.subgraph,
        "dtype": first.dtype.value if first is not None and first.dtype else "",
        "shape": () if first is None or first.shape is None else first.shape,
        "originals": op.original_names or (),
    }


def _measured(row: OpRow) -> dict[str, Any]:
    node: dict[str, Any] = {"topo": row.topo, "fused": row.fused, "originals": row.originals}
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


def _text(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return ",".join("?" if item is None else _text(str(item)) for item in value)
    return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) else value


def _unique(name: str, graph: networkx.MultiDiGraph[str]) -> str:
    number = 2
    found = name
    while found in graph:
        found = f"{name}#{number}"
        number += 1
    return found
