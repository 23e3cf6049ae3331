"""Find the op each sub-graph of a ge_onnx file belongs to, which the file does not say."""

from __future__ import annotations

from collections.abc import Iterator

from importers.ge_proto.assembly import RawGraph
from importers.ge_proto.messages import Node
from importers.kept import told_of

_CALLERS = frozenset({"PartitionedCall", "If", "Case", "While", "For"})


def name_owners(graphs: list[RawGraph]) -> list[str]:
    """Give ops the sub-graphs named after them (or they after those); tells how many.

    GE names a partition's op ``<sub-graph>_PartitionedCall_<n>``, and front ends name bodies
    after their op. ``graphs[0]`` is the root.
    """
    callers = [node for graph in graphs for node in graph.nodes if _is_caller(node)]
    given: list[str] = []
    for body in graphs[1:]:
        owner = _owner(body.name, callers)
        if owner is not None:
            owner.subgraphs.append(body.name)
            given.append(body.name)
    if not given:
        return []
    one = "sub-graph was given to an op by its name, as the file does not say whose it is"
    many = "sub-graphs were given to ops by their names, as the file does not say whose they are"
    return [told_of(given, one, many)]


def _is_caller(node: Node) -> bool:
    return node.type.removeprefix("Stateless").removeprefix("Stateful") in _CALLERS


def _owner(body: str, callers: list[Node]) -> Node | None:
    named = sorted(_named_alike(body, callers), key=lambda node: -len(node.name))
    return named[0] if named else None


def _named_alike(body: str, callers: list[Node]) -> Iterator[Node]:
    for node in callers:
        if body and (node.name.startswith(f"{body}_") or body.startswith(node.name)):
            yield node
