"""One of the golden ranks that are put side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from divergraph.layouts.placements import Placement
from divergraph.layouts.rank_layout import shares_of
from divergraph.layouts.shares import AxisShare
from divergraph.layouts.twins import Twins
from graphstore.model import ModelGraph, Op, Shape, TensorRef
from importers.dumps.index import DumpIndex
from importers.msprobe.collectives import GROUP, KIND
from importers.msprobe.graph import own_inputs

DIVISIONS = ("div_", "div", "__truediv__")
"""Calls that make the mean of a sum over ranks."""
REDUCTION = "all_reduce"


@dataclass(frozen=True)
class JoinedRank:
    """A golden rank: ``twins`` are the device's calls of its own, ``placements`` the weights that
    are part of the device's, ``data`` by axis which part of the data it read of what all of the
    joined ranks read."""

    number: int
    graph: ModelGraph
    dump: DumpIndex
    twins: Twins
    placements: tuple[Placement, ...]
    data: Mapping[int, AxisShare]

    @cached_property
    def parameters(self) -> Mapping[str, Placement]:
        """The placements by this rank's own names."""
        return {placement.name: placement for placement in self.placements}

    @cached_property
    def share(self) -> AxisShare | None:
        """Which part most of its weights are of the device's; None if it has whole ones."""
        shares = [share for placement in self.placements for share in shares_of(placement)]
        return max(shares, key=shares.count) if shares else None

    @cached_property
    def cut_axes(self) -> Mapping[tuple[Shape, Shape], int]:
        """The axis of which weights of a shape are part of the device's, of another."""
        axes: dict[tuple[Shape, Shape], int] = {}
        for placement in self.placements:
            for axis, runs in placement.runs[:1]:
                own = list(placement.shape)
                own[axis] = sum(stop - start for start, stop in runs)
                axes[tuple(own), placement.shape] = axis
        return axes

    @cached_property
    def readers(self) -> Mapping[TensorRef, list[Op]]:
        """The calls that read each tensor as it is."""
        readers: dict[TensorRef, list[Op]] = {}
        for op in self.graph.ops:
            for ref in op.inputs[: own_inputs(op)]:
                if ref is not None and ref.producer is not None:
                    readers.setdefault(ref.producer, []).append(op)
        return readers

    @cached_property
    def of_layout(self) -> Mapping[str, Op]:
        """The calls that a run of one rank lacks: those between ranks, and divisions that make
        means of their sums."""
        calls = {op.id: op for op in self.graph.ops if op.attrs.get("kind") == KIND}
        for op in self.graph.ops:
            reduced = [calls[ref.op] for ref in op.takes if ref.op in calls]
            groups = [op.attrs.get(GROUP) for op in reduced if op.type == REDUCTION]
            sizes = [len(group) for group in groups if isinstance(group, tuple)]
            if op.type in DIVISIONS and op.attrs.get("input.1") in sizes:
                calls[op.id] = op
        return calls

    def position(self, op: Op) -> Mapping[int, AxisShare]:
        """Which part of the data a call is of."""
        count, number = self.twins.count, self.twins.micro_batches[op.id]
        if count == 1:
            return self.data
        batch = self.data.get(0, AxisShare("", ((0, 1),), 1))
        (start, stop), *_ = batch.runs
        first = start * count + (stop - start) * number
        share = AxisShare("", ((first, first + stop - start),), batch.length * count)
        return {**self.data, 0: share}
