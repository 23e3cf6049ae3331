"""Device graph and original graph beside each other, with the links between their ops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from graphstore.model import LineageLink, LineageRule, Metric, OpState, Side

if TYPE_CHECKING:
    from graphstore.contract import GraphStore
    from graphstore.op_row import OpRow
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

    def __init__(self, rows: Sequence[OpRow], arrays: GraphArrays) -> None:
        self._rows = rows
        self._arrays: GraphArrays | None = arrays
        self.ids: Sequence[str] = arrays.ids
        self.number: Mapping[str, int] = arrays.number

    @classmethod
    def of_names(cls, names: Iterable[str]) -> Ladder:
        """A ladder of ops of which nothing is known but their names."""
        ladder = cls.__new__(cls)
        ladder._rows, ladder._arrays = (), None
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
        return bool(self._rows) and self._rows[0].state is not None

    def op(self, number: int) -> LadderOp:
        """One op."""
        from divergraph.text.words import known

        if not self._rows:
            return LadderOp(self.ids[number])
        row = self._rows[number]
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
    links: Sequence[LineageLink]

    def of(self, side: Side) -> Ladder:
        """The graph of *side*."""
        return self.device if side is Side.DEVICE else self.original

    def __post_init__(self) -> None:
        by_side = {
            Side.DEVICE: _grouped((link.device, link) for link in self.links),
            Side.GOLDEN: _grouped((link.original, link) for link in self.links),
        }
        object.__setattr__(self, "_by_side", by_side)  # now, in the thread that loads

    _by_side: Mapping[Side, Mapping[str, list[LineageLink]]] = field(init=False, repr=False)

    def links_of(self, side: Side, op: str) -> Sequence[LineageLink]:
        """The links of an op of *side*."""
        return self._by_side[side].get(op, ())

    def fused(self, side: Side) -> frozenset[str]:
        """The ops of *side* that are linked to more than one of the other graph."""
        linked = self._by_side[side].items()
        return frozenset(
            op for op, links in linked if len(links) > 1 and len(self.linked(side, op)) > 1
        )

    def linked(self, side: Side, op: str) -> tuple[str, ...]:
        """The ops of the other graph linked to an op of *side*, in execution order."""
        other = self.original if side is Side.DEVICE else self.device
        of_device = side is Side.DEVICE
        names = {link.original if of_device else link.device for link in self.links_of(side, op)}
        known = [name for name in names if name in other.number]
        return tuple(sorted(known, key=other.number.__getitem__))

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


def ladders_of(store: GraphStore, target: str, kind: str, rows: Sequence[OpRow]) -> Ladders:
    """Both graphs of a run, or an imported graph (*kind* ``graph``) beside the originals that its
    ops list, in the order they are listed. *rows* are those of the device graph."""
    arrays = store.arrays(target)
    if kind == "run":
        from divergraph.ask import op_rows

        golden = op_rows(store, target, Side.GOLDEN)
        original = Ladder(golden, store.arrays(target, Side.GOLDEN))
        return Ladders(Ladder(rows, arrays), original, store.links(target))
    links = tuple(
        LineageLink(row.id, name, LineageRule.ORIGINAL_NAMES)
        for row in rows
        for name in row.originals
    )
    names = dict.fromkeys(link.original for link in links)
    return Ladders(Ladder(rows, arrays), Ladder.of_names(names), links)


def _grouped(pairs: Iterator[tuple[str, LineageLink]]) -> Mapping[str, list[LineageLink]]:
    found: dict[str, list[LineageLink]] = {}
    for op, link in pairs:
        found.setdefault(op, []).append(link)
    return found
