"""The two graphs of a run and the correspondence of their ops: enough to choose a part."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cached_property

import numpy as np

from divergraph.submodel.select import JUST_SO, Selector
from divergraph.submodel.selection import Selection, SelectionRequest
from graphstore.columns.coded import Int
from graphstore.contract import RunData
from graphstore.errors import InputError
from graphstore.model import GraphKind, LineageLink, ModelGraph, Side


class LinkedGraphs:
    """Graphs and lineage of one run as the store keeps them; nothing is known of dumps."""

    def __init__(self, data: RunData) -> None:
        self.data = data
        self.golden: ModelGraph = data.golden
        self.device: ModelGraph = data.device

    @cached_property
    def selector(self) -> Selector:
        """Cuts the golden graph."""
        return Selector(self.golden)

    @cached_property
    def device_selector(self) -> Selector:
        """Cuts the device graph."""
        return Selector(self.device)

    @cached_property
    def originals(self) -> Mapping[str, tuple[str, ...]]:
        """The golden ops each device op stands for."""
        return _joined(self.data.links, device_first=True)

    @cached_property
    def stands_for(self) -> Mapping[str, tuple[str, ...]]:
        """The device ops that stand for each golden op."""
        return _joined(self.data.links, device_first=False)

    @cached_property
    def fused(self) -> Mapping[str, Sequence[str]]:
        """The originals of each fused device op; originals split over several device ops are left
        out."""
        return self.whole_groups(self.originals)

    def whole_groups(
        self, originals: Mapping[str, tuple[str, ...]]
    ) -> Mapping[str, tuple[str, ...]]:
        """Those of these groups of several originals that stand for one device op alone."""
        return {
            op: group
            for op, group in originals.items()
            if len(group) > 1 and all(len(self.stands_for[one]) == 1 for one in group)
        }

    @property
    def device_ids(self) -> Container[str]:
        """Ids of the device's ops."""
        return self.device_selector.ops

    def last_standing(self) -> Int:
        """For each golden op the number of the last device op that stands for it, -1 for none."""
        number, stands_for = self.device_selector.arrays.number, self.stands_for
        standing = (stands_for.get(name, ()) for name in self.selector.arrays.ids)
        last = [next((number[op] for op in ops[::-1] if op in number), -1) for ops in standing]
        return np.asarray(last, dtype=np.int32)

    def first_original(self, device: str) -> str:
        """The first golden op that a device op stands for, in execution order, but for constants;
        empty if it stands for none."""
        number, constants = self.selector.arrays.number, self.selector.constants
        ops = [op for op in self.originals.get(device, ()) if op in number]
        computed = [op for op in ops if op not in constants]
        return min(computed or ops, key=number.__getitem__, default="")

    def select(
        self,
        starts: Sequence[str],
        ends: Sequence[str],
        wish: SelectionRequest = JUST_SO,
        side: Side | None = None,
    ) -> Selection:
        """The part of the golden graph between ops named in the graph of *side*; None takes
        a name for a golden op's where both graphs have it.

        Raises:
            InputError: an op neither graph has, or one that stands for no original.
        """
        groups = dict(wish.groups) or self.fused
        request = SelectionRequest(groups, wish.whole, wish.all_outputs, wish.data)
        first = [op for name in starts for op in self.golden_ops(name, last=False, side=side)]
        last = [op for name in ends for op in self.golden_ops(name, last=True, side=side)]
        return self.selector.between(first, last, request)

    def golden_ops(self, name: str, *, last: bool, side: Side | None = None) -> tuple[str, ...]:
        """The golden op *name*, or of the device op of that name the originals at its
        *last* or first end."""
        golden = side is not Side.DEVICE and name in self.selector.ops
        if golden or name not in self.device_ids:
            return (name,)  # the selector says what is wrong with it
        group = set(self.originals.get(name, ())) & self.selector.ops.keys()
        if not group:
            raise InputError(
                f"the device op {name!r} stands for no original op",
                hint="choose the op before or after it, or --format ge",
            )
        if len(group) == 1:
            return tuple(group)
        part = self.selector.hull(group, SelectionRequest(data=False))
        return part.ends if last else part.starts

    def device_ops(self, golden: Sequence[str]) -> tuple[str, ...]:
        """The device ops that stand for any of the ops *golden*, in execution order."""
        ops = {op for one in golden for op in self.stands_for.get(one, ())}
        number = self.device_selector.arrays.number
        return tuple(sorted(ops & number.keys(), key=number.__getitem__))


def no_device(golden: ModelGraph) -> ModelGraph:
    """What stands for the device's graph where *golden* was compared with none."""
    return ModelGraph("", GraphKind.DEVICE, golden.framework, golden.format, ())


def _joined(links: Sequence[LineageLink], *, device_first: bool) -> dict[str, tuple[str, ...]]:
    pairs: dict[str, dict[str, None]] = {}
    for link in links:
        pair = (link.device, link.original) if device_first else (link.original, link.device)
        pairs.setdefault(pair[0], {})[pair[1]] = None
    return {op: tuple(group) for op, group in pairs.items()}
