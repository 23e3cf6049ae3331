"""What a store hands out of all ops of a graph: slices of columns, results one row a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphstore.columns.coded import Bool, Coded, Int, Lists
from graphstore.columns.parts import MetricColumns, SplitColumns
from graphstore.model import DType, Level, Metric, ModelGraph, OpState, Reason, Shape
from graphstore.traverse.arrays import GraphArrays


@dataclass(frozen=True, slots=True, eq=False)
class ListedTensors:
    """The outputs of the ops of a slice: those of its op i are the rows ``start[i]`` to
    ``start[i + 1]``, by port."""

    start: Int
    shapes: Coded[Shape | None]
    dtypes: Coded[DType | None]
    layouts: Coded[str | None]


@dataclass(frozen=True, slots=True, eq=False)
class ListedResults:
    """The compared and not compared tensors of the ops of a slice, by op and in saved order.

    ``ops`` are places in the slice. ``measured`` and ``judged`` are the rows of metrics and splits,
    -1 for a tensor without. Splits are without group and reference.
    """

    ops: Int
    of_output: Bool
    ports: Int
    states: Coded[OpState | None]
    levels: Coded[Level | None]
    failed: Coded[tuple[Metric, ...]]
    reasons: Coded[Reason | None]
    details: Coded[str]
    shapes: Coded[Shape | None]
    dtypes: Coded[DType | None]
    measured: Int
    metrics: MetricColumns
    judged: Int
    splits: SplitColumns


@dataclass(frozen=True, slots=True, eq=False)
class ListedOps:
    """Some of the ops of a graph, in topo order from number ``first`` on.

    Their ids are those of the graph's arrays. ``is_listed`` says which ops the graph says of what
    originals they were made of, ``original_names`` what it says. In a run, ``partners`` are the ops
    of the other side each is linked with, each once, and ``results`` those of the device side;
    None for a golden side or an imported graph.
    """

    first: int
    own_names: Coded[str | None]
    """What the file calls the op, where that is not its id."""
    types: Coded[str]
    subgraphs: Coded[str]
    is_listed: Bool
    original_names: Lists
    tensors: ListedTensors
    partners: Lists
    results: ListedResults | None

    def __len__(self) -> int:
        return len(self.types)


@dataclass(frozen=True, slots=True, eq=False)
class GraphColumns:
    """A graph without its ops (``header``), and by their numbers what they are called, their types,
    the edges between them, and the names of inputs that are ``given``: made by no op.

    Unless ``exact``, ids or names are not quite those of the file.
    """

    header: ModelGraph
    names: Sequence[str]
    types: Sequence[str]
    arrays: GraphArrays
    given: Lists
    exact: bool
