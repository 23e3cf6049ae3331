"""A graph folded by name spaces: its groups, with what can be said of all that is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.changed_ops import changed_ops
from divergraph.ask.facts import load_facts
from divergraph.ask.folding import FoldedOps, OpGroup, folded
from divergraph.ask.op_order import STARTS_FIRST
from divergraph.ask.questions.blame import blame_shares
from divergraph.ask.questions.compare_runs import ChangeKind
from graphstore.columns.coded import Float
from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import Metric, Op, OpState, Shape, Side, Tensor
from graphstore.schema.codec import plain_text

BLAME_SHARE = "blame_share"
"""Of an op in the error of the outputs, where `blame` was asked."""
FIGURES = (
    Metric.RELATIVE_EUCLIDEAN_DISTANCE.value,
    Metric.COSINE_SIMILARITY.value,
    Metric.MAX_ABSOLUTE_ERROR.value,
    "introduced",
    "suspicion",
    BLAME_SHARE,
)
"""What nodes can be coloured by, beside their state."""
_PARTNERS = 50
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
        self._facts = load_facts(store, run, side)
        self._links = None if self._facts.run is None else store.link_columns(run)
        self._folds = folded(self._facts.rows)
        self._read: Mapping[str, Op] | None = None
        self._changed = changed_ops(store, against, run, side) if against else {}

    def __len__(self) -> int:
        return len(self._folds.groups)

    @property
    def ops(self) -> int:
        """How many there are in all groups."""
        return len(self._folds.order)

    def holding(self, op: str) -> int:
        """The innermost group of the op of this id."""
        return int(self._folds.holder[self._facts.arrays.number[op]])

    def all(self) -> Iterator[GraphLevel]:
        """What is in each group; the ops are read at once."""
        self._read = self._store.ops(self._run, self._facts.rows.ids, self.side)
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
        size = len(opened.starts)
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
        return GraphLevel(
            self._run,
            self.side,
            group,
            tuple(trail),
            self.ops,
            self._nodes(opened, *outside),
            self._labelled(opened, pairs),
        )

    def _edges(
        self, opened: _Opened
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[list[int], list[int]]]:
        """Edges within the group as (nodes they come from, nodes they go to), and for each node
        how many come from, and go to, ops outside of the group."""
        arrays, order = self._facts.arrays, self._folds.order
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
            counts.append(np.bincount(nodes[~inside], minlength=len(opened.starts)).tolist())
            inner.append((nodes[inside], opened.node_of(places[inside])))
        sources, targets = inner[-1]
        return sources, targets, (counts[0], counts[1])

    def _nodes(
        self, opened: _Opened, before: Sequence[int], after: Sequence[int]
    ) -> tuple[GraphNode, ...]:
        ranks, changes, figures = self._ranks, self._change_ranks, self._figures
        rows, nodes = self._facts.rows, []
        for at, child in enumerate(opened.group.children):
            start, end = opened.span(child)
            ops = self._folds.order[start:end]
            states = _counted(ranks[ops], STARTS_FIRST)
            is_op = child < 0
            nodes.append(
                GraphNode(
                    rows.ids[~child] if is_op else self._folds.groups[child].name,
                    None if is_op else child,
                    end - start,
                    rows.types[~child] if is_op else "",
                    next(iter(states), None),
                    states,
                    {
                        name: worst
                        for name, values in figures.items()
                        if (worst := _worst(name, values[ops])) is not None
                    },
                    _counted(changes[ops], tuple(ChangeKind)),
                    int(rows.fused[~child]) if is_op else None,
                    self._partners(~child) if is_op else (),
                    before[at],
                    after[at],
                )
            )
        return tuple(nodes)

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """How bad the state of each op is, 0 the worst; after all states if it has none."""
        none = len(STARTS_FIRST)

        def rank(state: OpState | None) -> float:
            return none if state is None else STARTS_FIRST.index(state)

        if self.side is Side.DEVICE or self._links is None:
            return self._facts.rows.states.keyed(rank).astype(np.int64)
        device = load_facts(self._store, self._run).rows.states.keyed(rank).astype(np.int64)
        ranks = np.full(len(self._facts.rows), none, dtype=np.int64)
        np.minimum.at(ranks, self._links.originals, device[self._links.devices])
        return ranks

    @cached_property
    def _change_ranks(self) -> NDArray[np.int64]:
        """How bad the change of each op is, 0 the worst; after all kinds if it has none."""
        kinds, number = tuple(ChangeKind), self._facts.rows.number
        ranks = np.full(len(self._facts.rows), len(kinds), dtype=np.int64)
        for op, kind in self._changed.items():
            if op in number:
                ranks[number[op]] = kinds.index(kind)
        return ranks

    @cached_property
    def _figures(self) -> Mapping[str, Float]:
        return {name: self._figure(name) for name in FIGURES}

    def _figure(self, name: str) -> Float:
        """A number of each op, NaN where it has none; of an original that of its device ops."""
        facts = self._facts
        if facts.side is Side.GOLDEN and self._links is not None:
            facts = load_facts(self._store, self._run)
        rows = facts.rows
        if name == BLAME_SHARE:
            values = np.full(len(rows), np.nan)
            for op, share in blame_shares(facts.run).items():
                if op in rows.number:
                    values[rows.number[op]] = share
        elif name not in rows.metrics.numbers:
            numbers = rows.split_number(name)
            values = np.where(numbers.known, numbers.values, np.nan)
        else:
            values = rows.figure(name)
        if facts is self._facts or self._links is None:
            return values
        own = np.full(len(self._facts.rows), np.nan)
        pick = np.fmin if name == Metric.COSINE_SIMILARITY.value else np.fmax
        pick.at(own, self._links.originals, values[self._links.devices])
        return own

    def _partners(self, number: int) -> tuple[str, ...]:
        if self._links is None:
            return ()
        side = self.side
        ids = self._links.ids[Side.GOLDEN if side is Side.DEVICE else Side.DEVICE]
        return tuple(ids[one] for one in self._links.partners(side, number)[:_PARTNERS])

    def _labelled(
        self, opened: _Opened, pairs: Sequence[tuple[int, int, int]]
    ) -> tuple[GraphEdge, ...]:
        """The edges with the tensors of those between two ops."""
        ids = self._facts.rows.ids
        names = [ids[~child] if child < 0 else "" for child in opened.group.children]
        ends = {names[node] for source, target, _ in pairs for node in (source, target)} - {""}
        ops = self._read
        if ops is None:
            ops = self._store.ops(self._run, sorted(ends), self.side)
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
            labels = {*tensors.get((names[source], names[target]), ())}
            tensor = labels.pop() if len(labels) == 1 else Tensor("")
            dtype = "" if tensor.dtype is None else tensor.dtype.value
            edges.append(GraphEdge(source, target, count, dtype, tensor.shape, _bytes(tensor)))
        return tuple(edges)


class _Opened:
    """A group, and where its children are in the order of all ops."""

    def __init__(self, folds: FoldedOps, group: OpGroup) -> None:
        self._folds, self.group = folds, group
        self.starts = np.array([self.span(child)[0] for child in group.children], dtype=np.int64)

    def span(self, child: int) -> tuple[int, int]:
        """The places of the ops in a child, the last one exclusive."""
        if child < 0:
            at = int(self._folds.place[~child])
            return at, at + 1
        return self._folds.groups[child].start, self._folds.groups[child].end

    def node_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the child that holds each place."""
        nodes: NDArray[np.int64] = np.searchsorted(self.starts, places, side="right") - 1
        return nodes


def _counted(ranks: NDArray[np.int64], kinds: Sequence[_Kind]) -> Mapping[_Kind, int]:
    """How many of *ranks* are the place of each kind; those of none are left out."""
    counts = np.bincount(ranks, minlength=len(kinds)).tolist()
    return {kind: count for kind, count in zip(kinds, counts, strict=False) if count}


def _worst(name: str, values: Float) -> float | None:
    numbers = values[~np.isnan(values)]
    if not len(numbers):
        return None
    return float(numbers.min() if name == Metric.COSINE_SIMILARITY.value else numbers.max())


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
