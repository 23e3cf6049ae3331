"""A finished run as the advisor looks at it: outputs by op, masks, places in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from divergraph.graphs.lineage.fusion_groups import fusion_groups
from divergraph.thresholds.starts import Starts, starts_by_limits
from divergraph.thresholds.verdicts import outputs_by_op, worst
from graphstore.contract import RunData
from graphstore.model import Comparison, Op
from graphstore.traverse.algorithms import descendants, nearest_measured_ancestors, next_measured
from graphstore.traverse.arrays import Bool, GraphArrays
from graphstore.traverse.measured_ops import measured_ops, over_ops
from graphstore.traverse.topological_order import graph_arrays


@dataclass(frozen=True)
class RunView:
    """*data* with what several detections need of it, computed once."""

    data: RunData

    @property
    def is_recorded(self) -> bool:
        """Whether both sides are recorded runs."""
        return self.data.device.has_guessed_edges and self.data.golden.has_guessed_edges

    @cached_property
    def arrays(self) -> GraphArrays:
        """The device graph."""
        return graph_arrays(self.data.device)

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """The device's ops by id."""
        return self.data.device.op_index()

    @cached_property
    def readers(self) -> Mapping[str, Sequence[Op]]:
        """The ops that take an output of each op."""
        readers: dict[str, list[Op]] = {}
        for op in self.data.device.ops:
            for name in {ref.op for ref in op.takes}:
                readers.setdefault(name, []).append(op)
        return readers

    @cached_property
    def outputs(self) -> Mapping[str, Sequence[Comparison]]:
        """The output comparisons of each op."""
        return outputs_by_op(self.data.comparisons)

    @cached_property
    def measured(self) -> Bool:
        """Which ops have a compared output, by number."""
        return measured_ops(self.arrays, self.data.comparisons)

    @cached_property
    def over(self) -> Bool:
        """Which ops have an output over a limit, by number."""
        return over_ops(self.arrays, self.data.comparisons)

    @cached_property
    def starts(self) -> Starts:
        """Where errors over a limit start."""
        comparisons = self.data.comparisons
        return starts_by_limits(
            self.arrays,
            self.data.device,
            comparisons,
            self.outputs,
            self.data.golden,
            self.data.links,
        )

    @cached_property
    def indices(self) -> Mapping[str, int]:
        """The Index of each op in the CSV report."""
        groups = enumerate(fusion_groups(self.data.device.ops))
        return {op.id: index for index, group in groups for op in group}

    @cached_property
    def ends(self) -> tuple[Comparison, ...]:
        """The worst compared output of each of the last measured ops: those that feed no
        other measured op. These are the network's results, as far as they were dumped."""
        last = self.measured.copy()
        last[next_measured(self.arrays, self.measured)[0]] = False
        names = (self.arrays.ids[number] for number in np.flatnonzero(last).tolist())
        items = (worst(self.outputs.get(name, ())) for name in names)
        return tuple(item for item in items if item is not None)

    def type_of(self, op: str) -> str:
        """The type of the op with this id."""
        return self.ops[op].type

    def before(self, op: str) -> list[str]:
        """The nearest measured ops before *op*."""
        number = self.arrays.number[op]
        numbers = nearest_measured_ancestors(self.arrays, number, self.measured)
        return [self.arrays.ids[number] for number in numbers]

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
