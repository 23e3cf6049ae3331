"""Any model graph in Graphviz's DOT language.

A box for each op, labelled with name and type, a cluster for each body, nested as they are.
Control edges are dashed, edges into and out of bodies dotted. On the device side of a run
the boxes have the colour of their state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from divergraph.graph_formats.side import ShownGraph, body_paths
from divergraph.text.words import shape_text
from graphstore.model import Edge, EdgeKind, Op, OpState, Tensor

_COLOURS = {
    OpState.ORIGIN: "#d7301f",
    OpState.INHERITED: "#fdbb84",
    OpState.DRIFTING: "#fee8c8",
    OpState.EXPLAINED: "#e5f5e0",
    OpState.CLEAN: "#c7e9c0",
    OpState.BROKEN: "#bcbddc",
    OpState.NOT_COMPARED: "#f0f0f0",
}
_STYLES = {EdgeKind.CONTROL: "dashed", EdgeKind.CALL: "dotted"}
_INDENT = "  "


def write_dot(drawing: ShownGraph, out: TextIO) -> None:
    """Write *drawing* to *out*."""
    graph = drawing.graph
    nodes = {op.id: f"n{number}" for number, op in enumerate(graph.ops)}
    out.write(f"digraph {quoted(drawing.label)} {{\n")
    out.write('  node [shape=box, style="filled", fillcolor="#f7f7f7"];\n')
    out.writelines(_clusters(drawing, nodes))
    tensors = {op.id: op.outputs for op in graph.ops}
    for edge in graph.edges():
        if edge.source in nodes and edge.target in nodes:
            out.write(f"  {nodes[edge.source]} -> {nodes[edge.target]}{_edge(edge, tensors)};\n")
    out.write("}\n")


def quoted(text: str) -> str:
    """*text* as a DOT string that shows it as it is; what cannot be printed is escaped."""
    escaped = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    # Inside of labels a backslash is itself an escape: two show one.
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _clusters(drawing: ShownGraph, nodes: dict[str, str]) -> Iterator[str]:
    paths = body_paths(drawing.graph)
    members: dict[str, list[Op]] = {}
    inner: dict[str, list[str]] = {}
    for op in drawing.graph.ops:
        members.setdefault(op.subgraph, []).append(op)
    for body, path in paths.items():
        if body:
            inner.setdefault(path[-2] if len(path) > 1 else "", []).append(body)
    numbers = {body: number for number, body in enumerate(paths)}
    waiting: list[tuple[str, int, bool]] = [("", 0, True)]
    while waiting:
        body, depth, opens = waiting.pop()
        pad = _INDENT * depth
        if not opens:
            yield f"{pad}}}\n"
            continue
        if body:
            yield f"{pad}subgraph cluster_{numbers[body]} {{\n"
            yield f"{pad}{_INDENT}label={quoted(body)};\n"
            waiting.append((body, depth, False))
        for op in members.get(body, ()):
            yield f"{pad}{_INDENT}{nodes[op.id]} [{_node(op, drawing)}];\n"
        waiting.extend(
            (inner_body, depth + 1, True) for inner_body in reversed(inner.get(body, []))
        )


def _node(op: Op, drawing: ShownGraph) -> str:
    label = quoted(op.name)[:-1] + "\\n" + quoted(op.type)[1:]
    parts = [f"label={label}", f"tooltip={quoted(op.id)}"]
    row = drawing.rows.get(op.id)
    if row is not None and row.state is not None:
        parts.append(f"fillcolor={quoted(_COLOURS[row.state])}")
    return ", ".join(parts)


def _edge(edge: Edge, tensors: dict[str, tuple[Tensor, ...]]) -> str:
    parts = []
    outputs = tensors[edge.source]
    if 0 <= edge.source_port < len(outputs):
        tensor = outputs[edge.source_port]
        words = [tensor.dtype.value if tensor.dtype else "", shape_text(tensor.shape)]
        parts.append(f"label={quoted(' '.join(word for word in words if word))}")
    if edge.kind in _STYLES:
        parts.append(f"style={_STYLES[edge.kind]}")
    return f" [{', '.join(parts)}]" if parts else ""
