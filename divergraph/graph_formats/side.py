"""What an export shows: a graph, and what a run measured on its ops if it is one of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphstore.model import ModelGraph
from graphstore.op_row import OpRow


@dataclass(frozen=True, slots=True)
class ShownGraph:
    """A graph with the rows of its ops by id; outside of a store there are none.

    ``label`` is what the user calls it.
    """

    graph: ModelGraph
    label: str
    rows: Mapping[str, OpRow] = field(default_factory=dict)


def body_paths(graph: ModelGraph) -> dict[str, tuple[str, ...]]:
    """For each body the bodies around it and itself, the outermost first; () for the root."""
    owners = {body.name: body.owner for body in graph.subgraphs}
    around = {op.id: op.subgraph for op in graph.ops}
    paths: dict[str, tuple[str, ...]] = {"": ()}
    for body in (*owners, *around.values()):
        names: list[str] = []
        inside = body
        while inside and inside not in names:
            names.append(inside)
            inside = around.get(owners.get(inside, ""), "")
        paths[body] = tuple(reversed(names))
    return paths
