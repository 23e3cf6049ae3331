"""The order of axes of dumps whose files do not tell it.

Raw files have no header, so their shape is the graph's and the order in which its axes lie what
their reader assumes: runtimes move channels last, but not in every tensor. Where the same tensor
was dumped on the other side with its shape, the values decide. Where they are wrong in both
orders, as behind a fault, the tensors of as many axes that were decided do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from divergraph.graphs.lineage import Lineage, link_graphs
from divergraph.inputs.sources import DumpSource, GraphSource
from divergraph.values.closeness import distance
from divergraph.values.one_tensor import read_stored, read_tensor
from divergraph.values.unread import Unread
from graphstore.model import DumpTensorRef, ModelGraph, TensorIO, TensorMatch
from importers.dumps.index import DumpIndex, TensorKey

_Place = TensorKey | str
"""A tensor of a dump, or an input of its graph by name."""


def with_axes_settled(
    golden: GraphSource,
    device: GraphSource,
    golden_dump: DumpSource,
    device_dump: DumpSource,
    link: Callable[[ModelGraph, ModelGraph], Lineage] = link_graphs,
) -> tuple[DumpSource, DumpSource]:
    """The dumps of both sides with the order of axes that the other side's values show; as they
    are where every file tells its own, or none on either side."""
    open_sides = [any(_assumed(dump.index)) for dump in (golden_dump, device_dump)]
    if open_sides[0] == open_sides[1]:
        return golden_dump, device_dump
    counterparts = _counterparts(link(golden.graph, device.graph), device_dump.index)
    if open_sides[1]:
        settled = _settled(device_dump.index, golden_dump.index, counterparts)
        return golden_dump, replace(device_dump, index=settled)
    back = {there: here for here, there in counterparts.items()}
    settled = _settled(golden_dump.index, device_dump.index, back)
    return replace(golden_dump, index=settled), device_dump


def _assumed(index: DumpIndex) -> Iterator[tuple[_Place, DumpTensorRef]]:
    for key, ref in index.tensors.items():
        if ref.axes_assumed:
            yield key, ref
    for name, ref in index.graph_inputs.items():
        if ref.axes_assumed:
            yield name, ref


def _counterparts(lineage: Lineage, device: DumpIndex) -> dict[_Place, _Place]:
    """By device tensor the golden one it stands for, as the graphs tell by themselves."""
    counterparts: dict[_Place, _Place] = {name: name for name in device.graph_inputs}
    for ref, match in lineage.outputs.items():
        if isinstance(match, TensorMatch):
            there = (match.golden.op, TensorIO.OUTPUT, match.golden.port)
            counterparts[ref.op, TensorIO.OUTPUT, ref.port] = there
    return counterparts


def _settled(index: DumpIndex, other: DumpIndex, counterparts: dict[_Place, _Place]) -> DumpIndex:
    """*index* with the axes of each tensor in the order in which it is nearer to its counterpart in
    *other*."""
    orders: dict[_Place, tuple[int, ...]] = {}
    undecided: list[tuple[_Place, DumpTensorRef]] = []
    by_rank: Counter[tuple[int, bool]] = Counter()
    for place, ref in _assumed(index):
        counterpart = counterparts.get(place)
        there = _at(other, counterpart) if counterpart is not None else None
        order = None if there is None else _nearer(ref, there)
        if order is None:
            undecided.append((place, ref))
        else:
            orders[place] = order
            if len(ref.axes) > 2 and np.count_nonzero(np.array(ref.shape) > 1) > 1:
                by_rank[len(ref.axes), bool(order)] += 1
    for place, ref in undecided:
        moved, plain = by_rank[len(ref.axes), True], by_rank[len(ref.axes), False]
        orders[place] = ref.axes if moved >= plain else ()

    def settled(place: _Place, ref: DumpTensorRef) -> DumpTensorRef:
        return replace(ref, axes=orders[place], axes_assumed=False) if place in orders else ref

    return replace(
        index,
        tensors={key: settled(key, ref) for key, ref in index.tensors.items()},
        graph_inputs={name: settled(name, ref) for name, ref in index.graph_inputs.items()},
    )


def _at(index: DumpIndex, place: _Place) -> DumpTensorRef | None:
    return index.graph_inputs.get(place) if isinstance(place, str) else index.tensors.get(place)


def _nearer(ref: DumpTensorRef, there: DumpTensorRef) -> tuple[int, ...] | None:
    """The order of axes in which *ref* is nearer to *there*; None if it is far in both, or either
    cannot be read."""
    golden = read_tensor(there)
    as_assumed, as_it_lies = (read_stored(side) for side in (ref, replace(ref, axes=())))
    if isinstance(golden, Unread) or isinstance(as_assumed, Unread):
        return None
    if isinstance(as_it_lies, Unread) or golden.shape != as_assumed.shape:
        return None
    moved, plain = distance(as_assumed, golden), distance(as_it_lies, golden)
    if min(moved, plain) >= 1:  # zeros would be as near
        return None
    return ref.axes if moved <= plain else ()
