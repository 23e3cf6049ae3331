"""Causes of guilty and suspect outputs, found while their values are at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from divergraph.execution.contract import Alterable, Array, Executor, Piece
from divergraph.root_cause.causes import (
    Case,
    InsideStep,
    Rerun,
    Reweigh,
    TensorHashes,
    explain,
    hidden,
    nonfinite_ops,
    where_hidden,
)
from divergraph.root_cause.groups import Group
from divergraph.root_cause.loop_state import TURNS
from divergraph.root_cause.op_graph import OpGraph
from divergraph.root_cause.splits import same_shape
from divergraph.root_cause.values import RunValues
from graphstore.algorithms import descendants
from graphstore.arrays import GraphArrays
from graphstore.model import AttrValue, Comparison, ErrorSplit, Finding, Op, TensorRef

_MOST_INSIDE = 12
"""Ops of a group whose failing is tried out one after the other."""


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
    memory: int
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
                constants=self.constants(judged.group),
                others=_Unrelated(self, output.op),
                tensor=str(output),
                rerun=self._rerun(judged),
                reweigh=self._reweigh(judged),
                inside=_Inside(self, judged) if len(judged.group.ops) > 1 else None,
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

    def _reweigh(self, judged: Judged) -> Reweigh:
        """What runs the group with other values of operands, all trials side by side."""
        return lambda trials: self.outputs_with(
            judged, [tuple(trial) for trial in trials], lambda number: trials[number]
        )

    def outputs_with(
        self,
        judged: Judged,
        changed: Sequence[tuple[str, ...]],
        values: Callable[[int], Mapping[str, Array]],
    ) -> list[Array | None]:
        """The group's outputs with tensors in it *changed*: some names for each run.

        *values* gives what they are for a run, by name, when it is needed.
        """
        name = self.golden.name(judged.group.golden)
        pieces = [
            Piece(str(number), tuple(dict.fromkeys((*names, *judged.inputs))), (name,))
            for number, names in enumerate(changed)
        ]

        def given(piece: Piece) -> Mapping[str, Array]:
            return {**judged.inputs, **values(int(piece.key))}

        found: list[Array | None] = [None] * len(pieces)
        for result in self.executor.run_pieces(pieces, given, memory=self.memory):
            made = result.values.get(name)
            if made is not None:
                found[int(result.key)] = same_shape(made, judged.reference.shape)
        return found

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

    def constants(self, group: Group) -> dict[str, Array]:
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
        results = self.executor.run_pieces(pieces, lambda _: {}, memory=self.memory)
        return {result.key: result.values[result.key] for result in results if result.values}

    def _with_hiding(self, finding: Finding, op: str) -> Finding:
        where = where_hidden(self.arrays, op, nonfinite_ops(self.compared.values()))
        return hidden(finding, where, {each: self.types[each] for each in where})


@dataclass
class _Inside:
    """The ops of a group whose outputs are not measured."""

    explaining: Explaining
    judged: Judged

    @cached_property
    def steps(self) -> Sequence[InsideStep]:
        """Those that lead to the group's output, with what the original ops give."""
        golden, group, executor = (
            self.explaining.golden,
            self.judged.group,
            self.explaining.executor,
        )
        ops = [golden.ops[op_id] for op_id in group.ops if op_id != group.golden.op]
        if any(golden.ops[op_id].type in TURNS for op_id in group.ops) or len(ops) > _MOST_INSIDE:
            return ()
        names = [op.outputs[0].name for op in ops if len(op.outputs) == 1]
        feeds = tuple(feed.tensor for feed in group.feeds)
        piece = Piece("inside", feeds, tuple(names))
        made = next(iter(executor.run_pieces([piece], lambda _: self.judged.inputs))).values
        constants = self.explaining.constants(group)
        known = {**self.judged.inputs, **made}
        steps = []
        for op in ops:
            value = made.get(op.outputs[0].name)
            if value is None or value.dtype.kind != "f" or value.size == 0:
                continue
            taken = [ref.tensor for ref in golden.inputs(op)]
            steps.append(
                InsideStep(
                    op,
                    op.outputs[0].name,
                    value,
                    {name: known[name] for name in taken if name in known},
                    {name: constants[name] for name in taken if name in constants},
                )
            )
        return steps

    def replaced(self, guesses: Sequence[tuple[InsideStep, Array]]) -> Sequence[Array | None]:
        """The group's output if an op inside gave a value, for each guess."""

        def values(number: int) -> Mapping[str, Array]:
            step, value = guesses[number]
            return {step.tensor: value.astype(step.value.dtype)}

        changed = [(step.tensor,) for step, _ in guesses]
        return self.explaining.outputs_with(self.judged, changed, values)


@dataclass(frozen=True, slots=True)
class _Unrelated:
    """The device tensors that do not depend on one op."""

    explaining: Explaining
    op: str

    def holding(self, values: Array, besides: str = "") -> Sequence[str]:
        return self.explaining.holding(values, besides, self.op)
