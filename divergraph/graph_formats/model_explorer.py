"""Any model graph for Google's Model Explorer: a graph collection, and node data of a run.

Formats: graph_builder.py and node_data_builder.py of ai-edge-model-explorer. A collection
``{label, graphs}`` is what its JSON loader takes, node data is loaded beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from divergraph.graph_formats.side import ShownGraph, body_paths
from divergraph.text.words import shape_text
from graphstore.model import AttrValue, Edge, EdgeKind, Metric, Op, Tensor

_MAX_VALUE = 2000
_COLOURS = {"pass": "#c7e9c0", "warn": "#fee8c8", "fail": "#fc8d59"}


def collection(drawing: ShownGraph) -> dict[str, Any]:
    """The graph collection: one graph, bodies as name spaces beside those of the names."""
    return {"label": drawing.label, "graphs": [_graph(drawing)], "graphSorting": "name_asc"}


def node_data(drawing: ShownGraph) -> dict[str, dict[str, Any]]:
    """Metrics of a run as node data by name, each to be kept in a file of its own; values
    of the op's worst output, coloured by level. Empty without a run."""
    sets: dict[str, dict[str, Any]] = {}
    for metric in Metric:
        results: dict[str, Any] = {}
        for op, row in drawing.rows.items():
            value = None if row.metrics is None else row.metrics.value(metric)
            if isinstance(value, float | int) and math.isfinite(value):
                results[op] = {"value": float(value)}
                if row.level is not None and metric in row.failed:
                    results[op]["bgColor"] = _COLOURS[row.level.value]
        if results:
            sets[metric.value] = {drawing.graph.name: {"name": metric.value, "results": results}}
    return sets


def _graph(drawing: ShownGraph) -> dict[str, Any]:
    graph = drawing.graph
    paths = body_paths(graph)
    incoming: dict[str, list[Edge]] = {}
    ops = graph.op_index()
    for edge in graph.edges():
        if edge.source in ops and edge.target in ops:
            incoming.setdefault(edge.target, []).append(edge)
    nodes = [_node(op, drawing, paths, incoming.get(op.id, []), ops) for op in graph.ops]
    about = {"framework": graph.framework.value, "format": graph.format, "kind": graph.kind.value}
    attributes = about | {key: _text(value) for key, value in graph.attrs.items()}
    return {"id": graph.name, "nodes": nodes, "groupNodeAttributes": {"": attributes}}


def _node(
    op: Op,
    drawing: ShownGraph,
    paths: Mapping[str, tuple[str, ...]],
    incoming: list[Edge],
    ops: Mapping[str, Op],
) -> dict[str, Any]:
    name = op.name.strip("/")
    scope = name.rpartition("/")[0]
    around = (part.replace("/", "_") for part in paths[op.subgraph])
    return {
        "id": op.id,
        "label": op.type or name,
        "namespace": "/".join((*around, *(part for part in scope.split("/") if part))),
        "subgraphIds": [],
        "attrs": _attrs(op, drawing),
        "incomingEdges": [
            {
                "sourceNodeId": edge.source,
                "sourceNodeOutputId": str(max(edge.source_port, 0))
                if edge.kind is not EdgeKind.CONTROL
                else "control",
                "targetNodeInputId": str(edge.target_port)
                if edge.kind is EdgeKind.DATA
                else edge.kind.value,
            }
            for edge in incoming
        ],
        "inputsMetadata": _inputs(op, ops),
        "outputsMetadata": [
            {"id": str(port), "attrs": _tensor(tensor)} for port, tensor in enumerate(op.outputs)
        ],
    }


def _inputs(op: Op, ops: Mapping[str, Op]) -> list[dict[str, Any]]:
    inputs = []
    for position, ref in enumerate(op.inputs):
        if ref is not None:
            attrs = [{"key": "__tensor_tag", "value": ref.tensor}]
            if ref.producer is not None and ref.producer.op not in ops:
                attrs.append({"key": "producer", "value": str(ref.producer)})
            inputs.append({"id": str(position), "attrs": attrs})
    return inputs


def _attrs(op: Op, drawing: ShownGraph) -> list[dict[str, str]]:
    row = drawing.rows.get(op.id)
    texts: dict[str, str] = {"name": op.name}
    if op.original_names is not None:
        texts["originals"] = ", ".join(op.original_names) or "none: the compiler added it"
    if row is not None and row.state is not None:
        texts["state"] = row.state.value
        if row.detail:
            texts["detail"] = row.detail
    texts |= {key: _text(value) for key, value in op.attrs.items() if key not in texts}
    return [{"key": key, "value": value} for key, value in texts.items()]


def _tensor(tensor: Tensor) -> list[dict[str, str]]:
    dims = "[]" if tensor.shape == () else f"[{shape_text(tensor.shape)}]"
    texts = {
        "tensor_name": tensor.name,
        "__tensor_tag": tensor.name,
        "shape": f"{tensor.dtype.value if tensor.dtype else '?'}{dims}",
        "layout": tensor.layout or "",
        "original": f"{tensor.origin.op}:{tensor.origin.port}" if tensor.origin else "",
    }
    return [{"key": key, "value": value} for key, value in texts.items() if value]


def _text(value: AttrValue) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."
