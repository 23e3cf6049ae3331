"""Device graph and original graph beside each other, with the links between their ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from graphstore.columns.link_columns import LinkColumns
from graphstore.model import LineageLink, Metric, OpState, Side

if TYPE_CHECKING:
    from graphstore.columns.op_columns import OpColumns
    from graphstore.contract import GraphStore
    from graphstore.traverse.arrays import GraphArrays, Int32


@dataclass(frozen=True, slots=True)
class LadderOp:
    """One op of a ladder; ``state`` and ``cosine`` are those of a compared device op."""

    id: str
    type: str = ""
    layout: str = ""
    state: OpState | None = None
    cosine: float | None = None


class Ladder:
    """The ops of one graph in execution order, and the edges between their numbers."""

    def __init__(self, ops: OpColumns, arrays: GraphArrays) -> None:
        self._ops: OpColumns | None = ops
        self._arrays: GraphArrays | None = arrays
        self.ids: Sequence[str] = arrays.ids
        self.number: Mapping[str, int] = arrays.number

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Ladder:
        """A ladder of ops of which nothing is known but their names."""
        ladder = cls.__new__(cls)
        ladder._ops, ladder._arrays = None, None
        ladder.ids = tuple(names)
        ladder.number = {name: at for at, name in enumerate(ladder.ids)}
        return ladder

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_graph(self) -> bool:
        """False if only the names of the ops are known."""
        return self._arrays is not None

    @property
    def has_results(self) -> bool:
        """True if the ops have states: those of a run's device graph."""
        return self._ops is not None and len(self._ops) > 0 and self._ops.states[0] is not None

    def op(self, number: int) -> LadderOp:
        """One op."""
        from divergraph.text.words import known

        if self._ops is None:
            return LadderOp(self.ids[number])
        row = self._ops[number]
        cosine = known(row.metrics, Metric.COSINE_SIMILARITY)
        return LadderOp(row.id, row.type, row.layout, row.state, cosine)

    def edges(self) -> tuple[Int32, Int32]:
        """Numbers of the ops at both ends of each edge."""
        if self._arrays is None:
            nothing = np.zeros(0, dtype=np.int32)
            return nothing, nothing
        fed = np.diff(self._arrays.predecessor_start)
        targets = np.repeat(np.arange(len(self), dtype=np.int32), fed)
        return self._arrays.predecessor_ops, targets

    def beside(self, number: int, *, before: bool) -> list[str]:
        """The ops that feed an op, or those it feeds."""
        if self._arrays is None:
            return []
        along = self._arrays.predecessors if before else self._arrays.successors
        return [self.ids[other] for other in along(number).tolist()]

    def scopes(self, depth: int) -> list[str]:
        """For each op the first *depth* name spaces it is in; empty for an op in none."""
        return [self.scope(number, depth) for number in range(len(self))]

    def scope(self, number: int, depth: int) -> str:
        """The first *depth* name spaces an op is in; empty if it is in none."""
        return "/".join(self.ids[number].split("/")[:-1][:depth])

    @cached_property
    def depth(self) -> int:
        """The most name spaces an op is in."""
        return max((name.count("/") for name in self.ids), default=0)


@dataclass(frozen=True)
class Ladders:
    """Both graphs of a run; of an imported graph alone the originals it names are the other."""

    device: Ladder
    original: Ladder
    links: LinkColumns

    def of(self, side: Side) -> Ladder:
        """The graph of *side*."""
        return self.device if side is Side.DEVICE else self.original

    def links_of(self, side: Side, op: str) -> Sequence[LineageLink]:
        """The links of an op of *side*."""
        return self.links.of(side, self.of(side).number[op], op)

    @cached_property
    def fused(self) -> Mapping[Side, frozenset[str]]:
        """By side the ops that are linked to more than one of the other graph."""
        return {
            side: frozenset(map(self.of(side).ids.__getitem__, self.links.several(side).tolist()))
            for side in Side
        }

    def linked(self, side: Side, op: str) -> tuple[str, ...]:
        """The ops of the other graph linked to an op of *side*, in execution order."""
        other = self.original if side is Side.DEVICE else self.device
        numbers = self.links.partners(side, self.of(side).number[op])
        return tuple(other.ids[number] for number in numbers)

    def found(self, text: str, side: Side, after: int, *, whole: bool) -> tuple[Side, int] | None:
        """The next op whose name holds *text*: behind number *after* of *side*, then in the other
        graph, then from the start of *side*. With *whole* an op called just so comes first."""
        other = Side.GOLDEN if side is Side.DEVICE else Side.DEVICE
        for at in (side, other):
            if whole and text in self.of(at).number:
                return at, self.of(at).number[text]
        wanted = text.casefold()
        for at, start, end in (
            (side, after + 1, None),
            (other, 0, None),
            (side, 0, after + 1),
        ):
            for number, name in enumerate(self.of(at).ids[start:end], start):
                if wanted in name.casefold():
                    return at, number
        return None


def ladders_of(store: GraphStore, target: str, kind: str, ops: OpColumns) -> Ladders:
    """Both graphs of a run, or an imported graph (*kind* ``graph``) beside the originals that its
    ops list, in the order they are listed. *ops* are those of the device graph."""
    arrays = store.arrays(target)
    if kind == "run":
        from divergraph.ask.facts import load_facts

        golden = load_facts(store, target, Side.GOLDEN).rows
        original = Ladder(golden, store.arrays(target, Side.GOLDEN))
        ladders = Ladders(Ladder(ops, arrays), original, store.link_columns(target))
    else:
        names = Ladder.of_names(ops.originals.names)
        devices = np.repeat(np.arange(len(ops), dtype=np.int32), np.diff(ops.originals.start))
        links = LinkColumns.by_name(ops.ids, names.ids, (devices, ops.originals.numbers))
        ladders = Ladders(Ladder(ops, arrays), names, links)
    # Found here, where nobody waits for a key.
    ladders.fused, ladders.device.depth, ladders.original.depth  # noqa: B018
    return ladders
