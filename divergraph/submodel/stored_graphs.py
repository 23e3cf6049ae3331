"""The two graphs of a run in a store, read as far as choosing a part needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from divergraph.submodel.part_graph import PartGraph, StoredPartGraph, WholeGraph, is_plain
from divergraph.submodel.run_graphs import LinkedGraphs, no_device
from divergraph.submodel.select import Selector
from graphstore.columns.link_columns import LinkColumns
from graphstore.contract import GraphStore
from graphstore.model import LineageLink, Op, Side, TensorRef
from graphstore.traverse.arrays import Int32

T = TypeVar("T")
_FEW = 1000
"""For fewer ops it is faster to look at each than at columns of all."""


class AskStore(Protocol):
    """Has the store answer a question, when no other thread asks it."""

    def __call__(self, question: Callable[[GraphStore], T], /) -> T:
        """The answer."""


def asking(store: GraphStore) -> AskStore:
    """Asks a store that no other thread asks."""

    def ask(question: Callable[[GraphStore], T]) -> T:
        return question(store)

    return ask


class StoredGraphs(LinkedGraphs):
    """Graphs and lineage of the *run* a store keeps; nothing is known of dumps."""

    def __init__(self, ask: AskStore, run: str) -> None:
        self._ask, self._run = ask, run
        self._golden, self._device = self._graph(Side.GOLDEN), self._graph(Side.DEVICE)
        self.golden, self.device = self._golden.header, self._device.header

    def _graph(self, side: Side) -> PartGraph:
        columns = self._ask(lambda store: store.graph_columns(self._run, side))
        if not is_plain(columns):
            return WholeGraph(self._ask(lambda store: store.graph(self._run, side)))

        def read(ops: Sequence[str]) -> Mapping[str, Op]:
            return self._ask(lambda store: store.ops(self._run, ops, side))

        def outputs_called(tensor: str) -> Sequence[TensorRef]:
            return self._ask(lambda store: store.makers(self._run, tensor, side))

        return StoredPartGraph(columns, read, outputs_called)

    @cached_property
    def selector(self) -> Selector:
        """Cuts the golden graph."""
        return Selector(self._golden)

    @cached_property
    def device_selector(self) -> Selector:
        """Cuts the device graph."""
        return Selector(self._device)

    @cached_property
    def _links(self) -> LinkColumns:
        return self._ask(lambda store: store.link_columns(self._run))

    @cached_property
    def originals(self) -> Mapping[str, tuple[str, ...]]:
        """The golden ops each device op stands for."""
        return _Partners(self._links, Side.DEVICE, self._device.arrays.number)

    @cached_property
    def stands_for(self) -> Mapping[str, tuple[str, ...]]:
        """The device ops that stand for each golden op."""
        return _Partners(self._links, Side.GOLDEN, self._golden.arrays.number)

    @cached_property
    def fused(self) -> Mapping[str, Sequence[str]]:
        """The originals of each fused device op; originals split over several device ops are left
        out."""
        ids = self._device.arrays.ids
        several = [ids[number] for number in self._links.several(Side.DEVICE).tolist()]
        several += [link.device for _, link in self._links.loose]
        return self.whole_groups({op: self.originals[op] for op in dict.fromkeys(several)})

    def device_ops(self, golden: Sequence[str]) -> tuple[str, ...]:
        """The device ops that stand for any of the ops *golden*, in execution order."""
        if len(golden) < _FEW:
            return super().device_ops(golden)
        links, number = self._links, self._golden.arrays.number
        is_asked = np.zeros(len(self._golden.arrays.ids), dtype=np.bool_)
        is_asked[[number[op] for op in golden if op in number]] = True
        on_device = np.zeros(len(self._device.arrays.ids), dtype=np.bool_)
        on_device[links.devices[is_asked[links.originals]]] = True
        if links.loose:
            wanted, numbers = set(golden), self._device.arrays.number
            loose = (link.device for _, link in links.loose if link.original in wanted)
            on_device[[numbers[op] for op in loose if op in numbers]] = True
        return self._device.ids(on_device)

    def last_standing(self) -> Int32:
        """For each golden op the number of the last device op that stands for it, -1 for none."""
        links, size = self._links, len(self._golden.arrays.ids)
        pairs = links.originals.astype(np.int64) * (len(self._device.arrays.ids) + 1)
        _, firsts = np.unique(pairs + links.devices, return_index=True)
        firsts.sort()
        last = np.full(size, -1, dtype=np.int32)
        last[links.originals[firsts]] = links.devices[firsts]  # the last one written stays
        for op in dict.fromkeys(link.original for _, link in links.loose):
            if op in self._golden.arrays.number:
                last[self._golden.arrays.number[op]] = self._last_of(op)
        return last

    def _last_of(self, op: str) -> int:
        number = self._device.arrays.number
        return next((number[one] for one in self.stands_for[op][::-1] if one in number), -1)


class LoneStoredGraph(StoredGraphs):
    """The imported *graph* a store keeps, which has no device's graph beside it."""

    def __init__(self, ask: AskStore, graph: str) -> None:
        self._ask, self._run = ask, graph
        self._golden = self._graph(Side.DEVICE)  # the side on which a store has its graphs
        self.golden = self._golden.header
        self.device = no_device(self.golden)
        self._device = WholeGraph(self.device)

    @cached_property
    def _links(self) -> LinkColumns:
        none = np.empty(0, dtype=np.int32)
        return LinkColumns.by_name((), self._golden.arrays.ids, (none, none))


class _Partners(Mapping[str, tuple[str, ...]]):
    """What the ops of one side are linked with, in saved order."""

    def __init__(self, links: LinkColumns, side: Side, number: Mapping[str, int]) -> None:
        self._links, self._side, self._number = links, side, number

    def __getitem__(self, op: str) -> tuple[str, ...]:
        number = self._number.get(op)
        if number is None:
            loose = [link for _, link in self._links.loose]
            links = [link for link in loose if op == self._ends(link)[0]]
        else:
            links = self._links.of(self._side, number, op)
        if not links:
            raise KeyError(op)
        return tuple(dict.fromkeys(self._ends(link)[1] for link in links))

    def _ends(self, link: LineageLink) -> tuple[str, str]:
        ends = (link.device, link.original)
        return ends if self._side is Side.DEVICE else ends[::-1]

    def __iter__(self) -> Iterator[str]:
        loose = (self._ends(link)[0] for _, link in self._links.loose)
        linked = self._links.linked(self._side).tolist()
        ids = self._links.ids[self._side]
        ops = (op for op, is_in in zip(ids, linked, strict=True) if is_in)
        return iter(dict.fromkeys((*ops, *loose)))

    def __len__(self) -> int:
        return sum(1 for _ in self)
