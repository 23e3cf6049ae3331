"""Models in half precision whose every op reads what the op before it gives, rounded."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import TYPE_CHECKING

from divergraph.execute.onnx.files import captured_names

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def round_between_ops(graph: GraphProto, halves: Collection[str]) -> None:
    """Make the ops of *graph* read the float16 tensors *halves* as they are given out.

    ONNX Runtime computes most ops of float16 in float32 and, with all optimisations off, still
    leaves out the casts to float16 and back between two of them: the second reads more digits than
    the first gives out, so that 65504 + 0.5 - 65504 is 0.5. Only a float16 kernel between them
    keeps the casts, and one ``Identity`` by itself is computed in float32, too; two are not.
    """
    if not halves:
        return
    read = {name for node in graph.node for name in (*node.input, *captured_names(node))}
    nodes = [rounded_node for node in graph.node for rounded_node in _rounded(node, halves, read)]
    del graph.node[:]
    graph.node.extend(nodes)


def _rounded(node: NodeProto, halves: Container[str], read: Container[str]) -> Iterator[NodeProto]:
    """A copy of *node*, and what rounds those outputs that others read."""
    from onnx import NodeProto, helper

    copy = NodeProto()
    copy.CopyFrom(node)
    names = [name for name in node.output if name and name in halves and name in read]
    for place, name in enumerate(node.output):
        if name in names:
            copy.output[place] = f"{name}:unrounded"
    yield copy
    for name in names:
        yield helper.make_node("Identity", [f"{name}:unrounded"], [f"{name}:rounded"])
        yield helper.make_node("Identity", [f"{name}:rounded"], [name])
