"""A graph folded by name spaces: its groups, with what can be said of all that is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.folded_graph import folded_graph, worst_of
from divergraph.ask.folding import FoldedOps, OpGroup
from divergraph.ask.op_order import STARTS_FIRST
from divergraph.ask.questions.compare_runs import ChangeKind
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Op, OpState, Shape, Side, Tensor
from graphstore.schema.codec import plain_text

_Kind = TypeVar("_Kind", bound=Enum)


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group on the way from the whole graph to the one that is shown."""

    group: int
    name: str


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An op, or a name space with all that is in it."""

    name: Annotated[str, "the id of the op, or the name space"]
    group: Annotated[int | None, "by which its own nodes are asked for; null: it is an op"]
    ops: int
    type: Annotated[str, "of an op"]
    state: Annotated[OpState | None, "the worst inside; of originals, that of their device ops"]
    states: Annotated[Mapping[OpState, int], "how many ops are in each"]
    figures: Annotated[Mapping[str, float], "the worst inside; what nothing has is left out"]
    changes: Annotated[
        Mapping[ChangeKind, int], "how many ops changed how since the run ``against``"
    ]
    fused: Annotated[int | None, "of how many originals an op is made; 0: it was inserted"]
    partners: Annotated[tuple[str, ...], "ops of the other side it is linked with, 50 at most"]
    before: Annotated[int, "edges from ops outside of the group"]
    after: Annotated[int, "edges to ops outside of the group"]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """What goes from node number ``source`` of the answer to node number ``target``: ``edges``
    between ops, and of a single tensor its type, shape and size."""

    source: int
    target: int
    edges: int
    dtype: str
    shape: Shape | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class GraphLevel:
    """The nodes of one group in execution order, and the edges between them."""

    run: str
    side: Side
    group: int
    trail: Annotated[tuple[OpenGroup, ...], "the groups around it, the whole graph first"]
    ops: Annotated[int, "in the whole graph"]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


class GraphLevels:
    """The groups of one side of a run, or of an imported graph; with *against*, how their ops
    changed since that older run.

    Raises:
        UnknownNameError: no such run or graph.
        InputError: the runs have no original tensor in common.
    """

    def __init__(self, store: GraphStore, run: str, side: Side, against: str = "") -> None:
        self._store, self._run, self.side = store, run, side
        self._graph = folded_graph(store, run, side, against)
        self._folds, self._arrays = self._graph.folds, self._graph.arrays
        self._read: Mapping[str, Op] | None = None

    def __len__(self) -> int:
        return len(self._folds.groups)

    @property
    def ops(self) -> int:
        """How many there are in all groups."""
        return len(self._folds.order)

    def holding(self, op: str) -> int:
        """The innermost group of the op of this id."""
        return int(self._folds.holder[self._arrays.number[op]])

    def all(self) -> Iterator[GraphLevel]:
        """What is in each group; the ops are read at once."""
        self._read = self._store.ops(self._run, self._arrays.ids, self.side)
        return map(self.level, range(len(self)))

    def level(self, group: int) -> GraphLevel:
        """What is in a group.

        Raises:
            InputError: there is no such group.
        """
        if not 0 <= group < len(self):
            raise InputError("there is no such group", where="group")
        opened = _Opened(self._folds, self._folds.groups[group])
        sources, targets, outside = self._edges(opened)
        size = opened.size
        keys, counts = np.unique(sources * size + targets, return_counts=True)
        pairs = [
            (*divmod(key, size), count)
            for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
            if key // size != key % size
        ]
        trail = (
            OpenGroup(number, self._folds.groups[number].name)
            for number in self._folds.trail(group)
        )
        ids = [self._arrays.ids[~child] if child < 0 else "" for child in opened.group.children]
        ops = self._read
        if ops is None:
            ops = self._store.ops(self._run, list(filter(None, ids)), self.side)
        return GraphLevel(
            self._run,
            self.side,
            group,
            tuple(trail),
            self.ops,
            self._nodes(opened, ids, ops, outside),
            _labelled(ids, ops, pairs),
        )

    def _edges(
        self, opened: _Opened
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[list[int], list[int]]]:
        """Edges within the group as (nodes they come from, nodes they go to), and for each node
        how many come from, and go to, ops outside of the group."""
        arrays, order = self._arrays, self._folds.order
        members = order[opened.group.start : opened.group.end]
        inner, counts = [], []
        for start, ops in (
            (arrays.predecessor_start, arrays.predecessor_ops),
            (arrays.successor_start, arrays.successor_ops),
        ):
            own = start[members]
            degrees = start[members + 1] - own
            # the places of all edges of the members, one member after the other
            at = np.repeat(own - np.cumsum(degrees) + degrees, degrees) + np.arange(degrees.sum())
            places = self._folds.place[ops[at]]
            own_places = np.repeat(np.arange(opened.group.start, opened.group.end), degrees)
            inside = (places >= opened.group.start) & (places < opened.group.end)
            nodes = opened.node_of(own_places)
            counts.append(np.bincount(nodes[~inside], minlength=opened.size).tolist())
            inner.append((nodes[inside], opened.node_of(places[inside])))
        sources, targets = inner[-1]
        return sources, targets, (counts[0], counts[1])

    def _nodes(
        self,
        opened: _Opened,
        ids: Sequence[str],
        ops: Mapping[str, Op],
        outside: tuple[Sequence[int], Sequence[int]],
    ) -> tuple[GraphNode, ...]:
        graph, nodes = self._graph, []
        for child, op_id, before, after in zip(opened.group.children, ids, *outside, strict=True):
            start, end = opened.span(child)
            inside = self._folds.order[start:end]
            states = _counted(graph.ranks[inside], STARTS_FIRST)
            op = ops[op_id] if child < 0 else None
            nodes.append(
                GraphNode(
                    self._folds.groups[child].name if op is None else op_id,
                    child if op is None else None,
                    end - start,
                    "" if op is None else op.type,
                    next(iter(states), None),
                    states,
                    {
                        name: worst
                        for name, values in graph.figures.items()
                        if (worst := worst_of(name, values[inside])) is not None
                    },
                    _counted(graph.change_ranks[inside], tuple(ChangeKind)),
                    None if op is None else _originals(op),
                    () if op is None else graph.partners(~child),
                    before,
                    after,
                )
            )
        return tuple(nodes)


def _originals(op: Op) -> int:
    return 1 if op.original_names is None else len(op.original_names)


def _labelled(
    ids: Sequence[str], ops: Mapping[str, Op], pairs: Sequence[tuple[int, int, int]]
) -> tuple[GraphEdge, ...]:
    """The edges between the nodes that have these *ids* if they are ops, with the tensors of
    those between two ops."""
    ends = {ids[node] for source, target, _ in pairs for node in (source, target)} - {""}
    tensors: dict[tuple[str, str], list[Tensor]] = {}
    for op in ends:
        for ref in ops[op].inputs if op in ops else ():
            if ref is None or ref.producer is None:
                continue
            maker = plain_text(ref.producer.op)
            outputs = ops[maker].outputs if maker in ops else ()
            if 0 <= ref.producer.port < len(outputs):
                tensors.setdefault((maker, op), []).append(outputs[ref.producer.port])
    edges = []
    for source, target, count in pairs:
        labels = {*tensors.get((ids[source], ids[target]), ())}
        tensor = labels.pop() if len(labels) == 1 else Tensor("")
        dtype = "" if tensor.dtype is None else tensor.dtype.value
        edges.append(GraphEdge(source, target, count, dtype, tensor.shape, _bytes(tensor)))
    return tuple(edges)


class _Opened:
    """A group, and where its children are in the order of all ops."""

    def __init__(self, folds: FoldedOps, group: OpGroup) -> None:
        self._folds, self.group = folds, group
        self.size = len(group.children)
        sizes = [end - start for start, end in map(self.span, group.children)]
        self._nodes = np.repeat(np.arange(self.size), sizes)

    def span(self, child: int) -> tuple[int, int]:
        """The places of the ops in a child, the last one exclusive."""
        if child < 0:
            at = int(self._folds.place[~child])
            return at, at + 1
        return self._folds.groups[child].start, self._folds.groups[child].end

    def node_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the child that holds each place."""
        return self._nodes[places - self.group.start]


def _counted(ranks: NDArray[np.int64], kinds: Sequence[_Kind]) -> Mapping[_Kind, int]:
    """How many of *ranks* are the place of each kind; those of none are left out."""
    counts = np.bincount(ranks, minlength=len(kinds)).tolist()
    return {kind: count for kind, count in zip(kinds, counts, strict=False) if count}


def _bytes(tensor: Tensor) -> int | None:
    """The size of its elements, None where the graph does not say all of its shape and type."""
    if tensor.dtype is None or tensor.dtype.bits is None or tensor.shape is None:
        return None
    elements = 1
    for size in tensor.shape:
        if not isinstance(size, int) or size < 0:
            return None
        elements *= size
    return (elements * tensor.dtype.bits + 7) // 8
