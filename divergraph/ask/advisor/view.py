"""A finished run as the advisor looks at it: outputs by op, masks, places in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from divergraph.ask.advisor.tensor_marks import Outputs, TensorMarks
from divergraph.graphs.lineage.fusion_groups import fusion_key
from divergraph.thresholds.starts import Starts, starts_among, starts_by_limits
from divergraph.thresholds.verdicts import worst
from graphstore.contract import GraphStore, RunData
from graphstore.model import Comparison, Finding, ModelGraph, Op, Origin, Run, Side
from graphstore.traverse.algorithms import (
    ancestors,
    descendants,
    first_diverging,
    nearest_measured_ancestors,
)
from graphstore.traverse.arrays import Bool, GraphArrays, Int32, distinct
from graphstore.traverse.topological_order import graph_arrays


@dataclass(frozen=True)
class RunView:
    """A run with what several detections need of it, computed once. ``recorded`` is all of it where
    both sides are recorded runs; ``originals_of`` gives those of a device op."""

    run: Run
    device: ModelGraph
    arrays: GraphArrays
    marks: TensorMarks
    outputs: Outputs
    origins: Sequence[Origin]
    findings: Sequence[Finding]
    originals_of: Callable[[str], Iterable[str]]
    recorded: RunData | None = None

    @classmethod
    def of(cls, data: RunData) -> RunView:
        """The view of a whole run."""
        arrays, items = graph_arrays(data.device), data.comparisons
        marks = (
            (arrays.number[one.op], one.io, one.port, one.compared, one.over, one.overflow)
            for one in items
            if one.compared or one.over
        )
        is_recorded = data.device.has_guessed_edges and data.golden.has_guessed_edges
        return cls(
            data.run,
            data.device,
            arrays,
            TensorMarks.of(marks),
            Outputs(lambda _ops: items),
            data.origins,
            data.findings,
            lambda op: [link.original for link in data.links if link.device == op],
            data if is_recorded else None,
        )

    @classmethod
    def stored(cls, store: GraphStore, name: str) -> RunView:
        """The view of a run in *store*. Golden's graph is read of recorded runs only, comparisons
        of the few ops they are asked of."""
        columns = store.graph_columns(name)
        if columns.header.has_guessed_edges or not columns.exact:
            return cls.of(store.run_data(name))
        return cls(
            store.run(name),
            store.graph(name),
            columns.arrays,
            TensorMarks.of(store.named("tensor_marks", name, {}).rows),
            Outputs(lambda ops: store.comparisons(name, ops)),
            store.origins(name),
            store.findings(name),
            lambda op: [link.original for link in store.links(name, op, Side.DEVICE)],
        )

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """The device's ops by id."""
        return self.device.op_index()

    def readers(self, op: str) -> list[Op]:
        """The ops that take an output of *op*."""
        after = map(self.arrays.ids.__getitem__, self.arrays.successors(self.arrays.number[op]))
        readers = (self.ops[one] for one in after)
        return [one for one in readers if any(ref.op == op for ref in one.takes)]

    @cached_property
    def measured(self) -> Bool:
        """Which ops have a compared output, by number."""
        return self.marks.mask(len(self.arrays.ids), self.marks.compared)

    @cached_property
    def over(self) -> Bool:
        """Which ops have an output over a limit, by number."""
        return self.marks.mask(len(self.arrays.ids), self.marks.over)

    @cached_property
    def right(self) -> frozenset[tuple[int, int]]:
        """The outputs, by number of the op and port, that were compared and are within limits."""
        marks = self.marks
        rows = marks.is_output & marks.compared & ~marks.over
        return frozenset(zip(marks.ops[rows].tolist(), marks.ports[rows].tolist(), strict=True))

    @cached_property
    def starts(self) -> Starts:
        """Where errors over a limit start."""
        if (data := self.recorded) is not None:
            items = data.comparisons
            return starts_by_limits(self.arrays, data.device, items, {}, data.golden, data.links)
        first = self.names(first_diverging(self.arrays, self.measured, self.over))
        self.outputs.load(first)
        marks = self.marks
        over = self.names(distinct(marks.ops[marks.over]))
        inputs = marks.compared & ~marks.is_output
        fed = zip(self.names(marks.ops[inputs]), marks.over[inputs].tolist(), strict=True)
        return starts_among(self.arrays, self.device, first, over, self.outputs, fed)

    def index(self, op: str) -> int | None:
        """The Index in the CSV report of the op with this id, if there is one."""
        return self._indices[fusion_key(self.ops[op])] if op in self.ops else None

    @cached_property
    def _indices(self) -> Mapping[tuple[str, ...], int]:
        keys = dict.fromkeys(map(fusion_key, self.device.ops))
        return {key: index for index, key in enumerate(keys)}

    @cached_property
    def ends(self) -> tuple[Comparison, ...]:
        """The worst compared output of each of the last measured ops: those that feed no
        other measured op. These are the network's results, as far as they were dumped."""
        into = np.repeat(self.measured, np.diff(self.arrays.predecessor_start))
        before = distinct(self.arrays.predecessor_ops[into]).tolist()
        last = self.measured.copy()
        last[before] = last[ancestors(self.arrays, before)] = False
        names = self.names(np.flatnonzero(last))
        self.outputs.load(names)
        items = (worst(self.outputs.get(name, ())) for name in names)
        return tuple(item for item in items if item is not None)

    def type_of(self, op: str) -> str:
        """The type of the op with this id."""
        return self.ops[op].type

    def names(self, numbers: Iterable[int]) -> list[str]:
        """The ids of ops by their *numbers*."""
        return [self.arrays.ids[number] for number in numbers]

    def before(self, op: str) -> Int32:
        """The numbers of the nearest measured ops before *op*."""
        return nearest_measured_ancestors(self.arrays, self.arrays.number[op], self.measured)

    def reaches(self, starts: Sequence[str], op: str) -> bool:
        """True if *op* is one of *starts* or after one of them."""
        return bool(starts) and bool(self.after(*starts)[self.arrays.number[op]])

    def after(self, *starts: str) -> Bool:
        """By number, whether an op is one of *starts* or after one of them."""
        if starts not in self._after:
            numbers = [self.arrays.number[start] for start in starts]
            mask = np.zeros(len(self.arrays.ids), np.bool_)
            mask[descendants(self.arrays, numbers)] = True
            mask[numbers] = True
            self._after[starts] = mask
        return self._after[starts]

    @cached_property
    def _after(self) -> dict[tuple[str, ...], Bool]:
        return {}
