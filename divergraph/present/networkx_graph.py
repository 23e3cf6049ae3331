"""A graph of the store as a networkx graph, and as GraphML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from divergraph.ask.facts import op_rows
from divergraph.graph_formats import graphml
from divergraph.graph_formats.side import ShownGraph
from graphstore.contract import GraphStore
from graphstore.model import Side

if TYPE_CHECKING:
    import networkx


def to_networkx(
    store: GraphStore, target: str, side: Side = Side.DEVICE
) -> networkx.MultiDiGraph[str]:
    """One side of a run, or an imported graph, as a networkx MultiDiGraph: see
    :func:`divergraph.graph_formats.graphml.as_networkx`.

    Raises:
        UnknownNameError: no such run or graph.
    """
    graph = graphml.as_networkx(_drawing_of(store, target, side))
    graph.graph["target"] = target
    return graph


def write_graphml(store: GraphStore, target: str, path: Path, side: Side = Side.DEVICE) -> None:
    """Write the same as GraphML."""
    graphml.write_graphml(_drawing_of(store, target, side), path)


def _drawing_of(store: GraphStore, target: str, side: Side) -> ShownGraph:
    stored = store.graph(target, side)
    return ShownGraph(stored, target, {row.id: row for row in op_rows(store, target, side)})
