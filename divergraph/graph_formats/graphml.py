"""Any model graph as a networkx graph, and as GraphML."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from divergraph.graph_formats.side import ShownGraph
from graphstore.model import Edge, Metric, Op
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    import networkx

# What XML 1.0 cannot hold, in no way of writing.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAMESPACES = (
    'xmlns="http://graphml.graphdrawing.org/xmlns"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns'
    ' http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd"'
)
_TYPES = ((bool, "boolean"), (int, "long"), (float, "double"))
_INDENT = "    "


def as_networkx(drawing: ShownGraph) -> networkx.MultiDiGraph[str]:
    """*drawing* as a networkx MultiDiGraph.

    Nodes are op ids with name, type, subgraph, dtype and shape of the first output, originals;
    of a store also topo and fused, and in a run state, level, the metrics of the worst output,
    and role, guilt and the numbers behind them (absent where unknown or not finite). Edges
    carry kind (data, control, call), source_port, target_port and tensor.
    """
    import networkx as nx

    graph: networkx.MultiDiGraph[str] = nx.MultiDiGraph(name=drawing.label)
    for op in drawing.graph.ops:
        graph.add_node(op.id, **_attributes(op, drawing))
    for edge in drawing.graph.edges():
        if edge.source in graph and edge.target in graph:
            graph.add_edge(edge.source, edge.target, **_of_edge(edge))
    return graph


def write_graphml(drawing: ShownGraph, path: Path) -> None:
    """Write :func:`as_networkx` of *drawing* as GraphML: tuples become text with commas, and
    what XML cannot hold a replacement character."""
    # Not networkx's writer: it holds the document as a tree, 4 GiB for a million edges.
    keys = _Keys()
    name = keys.data("graph", {"name": drawing.label}, _INDENT)
    for op in drawing.graph.ops:
        keys.data("node", _attributes(op, drawing), _INDENT)
    for attributes in map(_of_edge, islice(drawing.graph.edges(), 1)):
        keys.data("edge", attributes, _INDENT)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"<?xml version='1.0' encoding='utf-8'?>\n<graphml {_NAMESPACES}>\n")
        file.writelines(keys.declared())
        file.write('  <graph edgedefault="directed">\n')
        file.writelines(_elements(drawing, keys))
        file.write(f"{name}  </graph>\n</graphml>\n")


def _elements(drawing: ShownGraph, keys: _Keys) -> Iterator[str]:
    """The nodes and edges as XML, one at a time."""
    ids: dict[str, str] = {}
    used: set[str] = set()
    for op in drawing.graph.ops:
        unique = _unique(_text(op.id), used)
        used.add(unique)
        ids[op.id] = quoteattr(unique)
        data = keys.data("node", _attributes(op, drawing), _INDENT + "  ")
        yield f"{_INDENT}<node id={ids[op.id]}>\n{data}{_INDENT}</node>\n"
    parallel: Counter[tuple[str, str]] = Counter()
    target = ""
    for edge in drawing.graph.edges():
        if edge.source not in ids or edge.target not in ids:
            continue
        if edge.target != target and not drawing.graph.subgraphs:
            parallel.clear()  # without bodies all edges into an op come at once
        target, ends = edge.target, (edge.source, edge.target)
        opened = f'<edge source={ids[ends[0]]} target={ids[ends[1]]} id="{parallel[ends]}">'
        parallel[ends] += 1
        data = keys.data("edge", _of_edge(edge), _INDENT + "  ")
        yield f"{_INDENT}{opened}\n{data}{_INDENT}</edge>\n"


class _Keys:
    """The attributes of a GraphML document: a key for each name, type and kind of element."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str, str], str] = {}

    def data(self, scope: str, attributes: Mapping[str, Any], indent: str) -> str:
        """*attributes* as elements, their keys declared."""
        lines = []
        for name, value in attributes.items():
            of_type = next((word for kind, word in _TYPES if isinstance(value, kind)), "string")
            key = self._ids.setdefault((name, of_type, scope), f"d{len(self._ids)}")
            text = escape(str(_text(value)), {"\r": "&#13;"})
            lines.append(f'{indent}<data key="{key}">{text}</data>\n')
        return "".join(lines)

    def declared(self) -> Iterator[str]:
        """The declarations of all keys so far."""
        for (name, of_type, scope), key in self._ids.items():
            yield f'  <key id="{key}" for="{scope}" attr.name="{name}" attr.type="{of_type}" />\n'


def _attributes(op: Op, drawing: ShownGraph) -> dict[str, Any]:
    row = drawing.rows.get(op.id)
    return _declared(op) | ({} if row is None else _measured(row))


def _of_edge(edge: Edge) -> dict[str, Any]:
    return {
        "kind": edge.kind.value,
        "source_port": edge.source_port,
        "target_port": edge.target_port,
        "tensor": edge.tensor,
    }


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


def _unique(name: str, used: Container[str]) -> str:
    number = 2
    unique = name
    while unique in used:
        unique = f"{name}#{number}"
        number += 1
    return unique
