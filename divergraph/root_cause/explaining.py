"""Causes of guilty and suspect outputs, found while their values are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from divergraph.execution.contract import Alterable, Array, Executor, Piece
from divergraph.root_cause.causes import (
    Case,
    Rerun,
    TensorHashes,
    explain,
    hidden,
    where_hidden,
)
from divergraph.root_cause.groups import Group
from divergraph.root_cause.op_graph import OpGraph
from divergraph.root_cause.splits import same_shape
from divergraph.root_cause.values import RunValues
from graphstore.algorithms import descendants
from graphstore.arrays import GraphArrays
from graphstore.model import AttrValue, Comparison, ErrorSplit, Finding, Op, TensorRef


@dataclass(frozen=True, slots=True)
class Judged:
    """An output over a limit of suspicion: d, f(d_in) and g, and what its group was fed."""

    group: Group
    split: ErrorSplit
    device: Array
    reference: Array
    golden: Array
    inputs: Mapping[str, Array]


@dataclass
class Explaining:
    """Collects ``findings``; what it is shown may be let go of afterwards."""

    arrays: GraphArrays
    golden: OpGraph
    values: RunValues
    compared: Mapping[TensorRef, Comparison]
    executor: Executor
    types: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)
    _hashes: TensorHashes | None = None

    def look_at(self, judged: Judged) -> None:
        """Explain one output, if anything can be said."""
        output = judged.group.output
        finding = explain(
            Case(
                output.op,
                output.port,
                judged.device,
                judged.reference,
                judged.split.floor or 0.0,
                judged.inputs,
                judged.golden,
                dtype=self.compared[output].device_dtype,
                ops=tuple(self.golden.ops[op_id] for op_id in judged.group.ops),
                constants=self._constants(judged.group),
                others=_Unrelated(self, output.op),
                tensor=str(output),
                rerun=self._rerun(judged),
            )
        )
        if finding is not None:
            self.findings.append(self._with_hiding(finding, output.op))

    def _rerun(self, judged: Judged) -> Rerun | None:
        """What runs the group with other attributes, if the executor can."""
        executor, group = self.executor, judged.group
        if not isinstance(executor, Alterable) or not group.ops:
            return None
        name = self.golden.name(group.golden)
        piece = Piece(name, tuple(feed.tensor for feed in group.feeds), (name,))

        def again(op: Op, attrs: Mapping[str, AttrValue]) -> Array | None:
            made = executor.run_altered(piece, judged.inputs, op.outputs[0].name, attrs)
            return None if made is None else same_shape(made[name], judged.reference.shape)

        return again

    def holding(self, values: Array, besides: str, op: str) -> list[str]:
        """The device tensors with these values that do not come from *op*."""
        behind = {self.arrays.ids[n] for n in descendants(self.arrays, [self.arrays.number[op]])}
        found = self._all().holding(values, besides)
        return [name for name in found if name.rpartition(":")[0] not in behind]

    def _all(self) -> TensorHashes:
        if self._hashes is None:
            self._hashes = TensorHashes()
            for ref in self.compared:
                value = self.values.device(ref)
                if value is not None and value.dtype.kind in "biuf":
                    self._hashes.add(str(ref), value)
        return self._hashes

    def _constants(self, group: Group) -> dict[str, Array]:
        """The weights of the ops of a group, by tensor name."""
        fed = {feed.tensor for feed in group.feeds}
        made = {tensor.name for op_id in group.ops for tensor in self.golden.ops[op_id].outputs}
        names = dict.fromkeys(
            ref.tensor
            for op_id in group.ops
            for ref in self.golden.inputs(self.golden.ops[op_id])
            if ref.tensor not in fed and ref.tensor not in made
        )
        pieces = [Piece(name, (), (name,)) for name in names]
        results = self.executor.run_pieces(pieces, lambda _: {})
        return {result.key: result.values[result.key] for result in results if result.values}

    def _with_hiding(self, finding: Finding, op: str) -> Finding:
        nonfinite: dict[str, bool] = {}
        for ref, item in self.compared.items():
            if item.metrics is not None:
                broken = item.metrics.device_nonfinite > 0
                nonfinite[ref.op] = nonfinite.get(ref.op, False) or broken
        where = where_hidden(self.arrays, op, nonfinite)
        return hidden(finding, where, {each: self.types[each] for each in where})


@dataclass(frozen=True, slots=True)
class _Unrelated:
    """The device tensors that do not depend on one op."""

    explaining: Explaining
    op: str

    def holding(self, values: Array, besides: str = "") -> Sequence[str]:
        return self.explaining.holding(values, besides, self.op)
