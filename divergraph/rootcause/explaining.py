"""Causes of guilty and suspect outputs, found while their values are in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from divergraph.execute.contract import (
    Alterable,
    AlterableBodies,
    Array,
    BodyChange,
    RunnableSubgraph,
)
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.calls_alone import call_weights
from divergraph.rootcause.causes.evidence import (
    FaultEvidence,
    Foreign,
    InsideStep,
    Rerun,
    Reweigh,
    RunBudget,
)
from divergraph.rootcause.causes.rules import explain as explained
from divergraph.rootcause.groups.group_reruns import GroupReruns, OpVerdict
from divergraph.rootcause.groups.loop_state import TURNS
from divergraph.rootcause.hiding import hidden, nonfinite_ops, where_hidden
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.tensor_hashes import TensorHashes
from divergraph.rootcause.values import same_shape
from divergraph.text.words import counted
from graphstore.model import AttrValue, Finding, Op, TensorRef
from graphstore.traverse.algorithms import descendants
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.topological_order import graph_arrays

_RUNS_OF_RULE, _RUNS = 10, 40
"""Op runs that one rule may take, and all of them in a run, in multiples of the model's ops: side
by side they are some ten times cheaper than those of the analysis, about ten of each op.
"""
_LEAST_RUNS_OF_RULE, _LEAST_RUNS = 5_000, 20_000
"""As above for small models, in which a rule may try thousands of weights of one op."""
_MOST_INSIDE = 12
"""Ops of a group that are tried as the faulty one. Bounds cost: each trial runs the group again."""


@dataclass
class Explaining:
    """Collects ``findings``. Keeps no array of a verdict, except references within ``_room``."""

    run: PreparedRun
    progress: Progress = NO_PROGRESS
    findings: list[Finding] = field(default_factory=list)
    failures: dict[TensorRef, str] = field(default_factory=dict)
    """By output: why no cause could be looked for."""
    _hashes: TensorHashes | None = None
    _references: dict[str, Array] = field(default_factory=dict)
    _room: int = field(init=False)

    def __post_init__(self) -> None:
        self._room = self.memory // 4

    @property
    def memory(self) -> int:
        """Bytes that values may take."""
        return self.run.options.memory // 2

    @cached_property
    def reruns(self) -> GroupReruns:
        """Runs groups again with other values of operands."""
        return GroupReruns(self.run, self.memory, self.budget)

    @cached_property
    def budget(self) -> RunBudget:
        """The op runs that are left for causes."""
        ops = len(self.run.golden.ops)
        return RunBudget(
            max(_LEAST_RUNS, _RUNS * ops), max(_LEAST_RUNS_OF_RULE, _RUNS_OF_RULE * ops)
        )

    @cached_property
    def arrays(self) -> GraphArrays:
        """The edges of the device's graph."""
        return graph_arrays(self.run.inputs.data.device)

    def explain(self, judged: OpVerdict) -> None:
        """Add the cause of one output to ``findings``, if one is found.

        Guilt is decided already and stays: whatever stops the search for a cause, running out of
        memory included, only leaves the output without one, and ``failures`` says why.
        """
        output = judged.group.output
        self.progress.step(0, f"the cause at {output.op}")
        try:
            finding = self._explained(judged)
        except Exception as error:  # noqa: BLE001 - whatever a rule breaks on is no verdict
            self.failures[output] = str(error) or type(error).__name__
            return
        self.failures.pop(output, None)
        if finding is not None:
            self.findings.append(finding)
            self._keep_right(judged)

    def remarks(self) -> Iterator[str]:
        """A warning about outputs whose causes could not be looked for."""
        if self.failures:
            first, why = next(iter(self.failures.items()))
            yield (
                f"no cause could be looked for in {counted(len(self.failures), 'output')} "
                f"(first: {first}: {why}); their suspicion does not depend on it"
            )

    def _explained(self, judged: OpVerdict) -> Finding | None:
        output = judged.group.output
        finding = explained(
            FaultEvidence(
                output.op,
                output.port,
                judged.device,
                judged.reference,
                judged.noise,
                judged.inputs,
                dtype=self.run.runs.compared[output].device_dtype,
                ops=tuple(self.run.golden.ops[op_id] for op_id in judged.group.ops),
                constants={
                    **self.reruns.constants(judged.group),
                    **self.reruns.base(judged).held,
                    **(call_weights(judged.inputs) if self.run.recorded else {}),
                },
                others=partial(self._holding, output),
                rerun=self._rerun(judged),
                reweigh=self._reweigh(judged),
                inside=_Inside(self, judged) if len(judged.group.ops) > 1 else None,
                bodies=self._bodies(judged),
                right=tuple(self._right(judged)),
                beside=tuple(self._beside(judged)),
                golden_port=judged.group.golden.port,
                budget=self.budget,
            )
        )
        return None if finding is None else self._with_hiding(finding, output.op)

    def _keep_right(self, judged: OpVerdict) -> None:
        """Remember the reference of a wrong output, for the causes of the ops that read it."""
        self._room -= judged.reference.nbytes
        if self._room >= 0:
            self._references[self.run.golden.name(judged.group.golden)] = judged.reference

    def _right(self, judged: OpVerdict) -> Iterator[Foreign]:
        """The references of those operands of a group that are wrong themselves."""
        for name, fed in judged.inputs.items():
            right = self._references.get(name)
            if right is not None and right.size == fed.size:
                yield Foreign(name, name, partial(_like, fed, right))

    def _beside(self, judged: OpVerdict) -> Iterator[Foreign]:
        """The outputs of other ops that read an operand of the group, in the operand's shape."""
        for name, fed in judged.inputs.items():
            for golden in self._readers.get(name, ()):
                output = self._measured.get(golden)
                if output is None or golden.op in judged.group.ops:
                    continue
                by = self.run.golden.name(golden)
                yield Foreign(name, by, partial(self._dumped_like, fed, output))

    def _dumped_like(self, fed: Array, output: TensorRef) -> Array | None:
        return _like(fed, self.run.values.device(output))

    @cached_property
    def _readers(self) -> Mapping[str, Sequence[TensorRef]]:
        """By golden tensor the outputs of the ops that read it."""
        readers: dict[str, list[TensorRef]] = {}
        for op in self.run.golden.graph.ops:
            for name in {ref.tensor for ref in op.inputs if ref is not None}:
                readers.setdefault(name, []).append(TensorRef(op.id, 0))
        return readers

    @cached_property
    def _measured(self) -> Mapping[TensorRef, TensorRef]:
        """The device's outputs by the golden ones they stand for."""
        measured: dict[TensorRef, TensorRef] = {}
        for output, item in self.run.compared.items():
            if item.golden is not None:
                measured.setdefault(item.golden, output)
        return measured

    def _rerun(self, judged: OpVerdict) -> Rerun | None:
        """What runs the group with other attributes, if the executor can."""
        executor, group = self.run.executor, judged.group
        if not isinstance(executor, Alterable) or not group.ops:
            return None
        name = self.run.golden.name(group.golden)
        feeds = {**judged.inputs, **self.reruns.base(judged).held}
        subgraph = RunnableSubgraph(name, tuple(feeds), (name,))

        def again(op: Op, attrs: Mapping[str, AttrValue]) -> Array | None:
            self.budget.spend(len(group.ops))
            altered = executor.run_altered(subgraph, feeds, op.outputs[0].name, attrs)
            return None if altered is None else same_shape(altered[name], judged.reference.shape)

        return again

    def _bodies(self, judged: OpVerdict) -> _Bodies | None:
        """The bodies of the ops of a group, if the executor can change them."""
        executor, graph = self.run.executor, self.run.golden.graph
        owned = {body for op_id in judged.group.ops for body in self.run.golden.ops[op_id].owns}
        if not owned or not isinstance(executor, AlterableBodies):
            return None
        ops = tuple(op for op in graph.ops if op.subgraph in owned)
        name = self.run.golden.name(judged.group.golden)
        subgraph = RunnableSubgraph(
            name, tuple(feed.tensor for feed in judged.group.feeds), (name,)
        )
        return _Bodies(executor, subgraph, judged, ops, self.budget)

    def _reweigh(self, judged: OpVerdict) -> Reweigh:
        """What runs the group with other values of operands, all trials side by side."""
        return lambda trials: self.reruns.outputs_with(
            judged, [tuple(trial) for trial in trials], lambda number: trials[number]
        )

    def _holding(self, output: TensorRef, values: Array) -> list[str]:
        """The device tensors with these values that are not computed from *output*."""
        start = self.arrays.number[output.op]
        later_ops = {self.arrays.ids[n] for n in descendants(self.arrays, [start])}
        if self.run.recorded:  # no edge leads on, but what was recorded later may hold the output
            later_ops = set(self.arrays.ids[start:])
        holders = self._all().holding(values, str(output))
        return [name for name in holders if name.rpartition(":")[0] not in later_ops]

    def _all(self) -> TensorHashes:
        if self._hashes is None:
            hashes = TensorHashes()
            for ref in self.run.compared:
                value = self.run.values.device(ref)
                if value is not None and value.dtype.kind in "biuf":
                    hashes.add(str(ref), value)
            self._hashes = hashes  # only once it holds all: memory may run out on the way
        return self._hashes

    def _with_hiding(self, finding: Finding, op: str) -> Finding:
        where = where_hidden(self.arrays, op, nonfinite_ops(self.run.compared.values()))
        ops = self.run.inputs.data.device.op_index() if where else {}
        return hidden(finding, [ops[op_id] for op_id in where])


def _like(fed: Array, values: Array | None) -> Array | None:
    """*values* in the shape and dtype of *fed*; None if they cannot be, or are equal to it."""
    if values is None or values.size != fed.size or values.dtype.kind != fed.dtype.kind:
        return None
    fitting = values.reshape(fed.shape).astype(fed.dtype)
    return None if np.array_equal(fitting, fed) else fitting


@dataclass(frozen=True)
class _Bodies:
    """The bodies of the ops of a group, which *executor* runs as *subgraph*."""

    executor: AlterableBodies
    subgraph: RunnableSubgraph
    judged: OpVerdict
    ops: tuple[Op, ...]
    budget: RunBudget

    def changed(self, change: BodyChange) -> Array | None:
        """The group's output with an op of a body changed; None where that does not run."""
        self.budget.spend(len(self.judged.group.ops) + len(self.ops))
        outputs = self.executor.run_with_body(self.subgraph, self.judged.inputs, change)
        if outputs is None:
            return None
        return same_shape(outputs[self.subgraph.outputs[0]], self.judged.reference.shape)


@dataclass
class _Inside:
    """The ops of a group whose outputs are not measured."""

    explaining: Explaining
    judged: OpVerdict

    @cached_property
    def steps(self) -> Sequence[InsideStep]:
        """Those that lead to the group's output, with what the original ops give."""
        run, group = self.explaining.run, self.judged.group
        golden = run.golden
        ops = [golden.ops[op_id] for op_id in group.ops if op_id != group.golden.op]
        if any(golden.ops[op_id].type in TURNS for op_id in group.ops) or len(ops) > _MOST_INSIDE:
            return ()
        names = [op.outputs[0].name for op in ops if len(op.outputs) == 1]
        weights_held = self.explaining.reruns.base(self.judged).held
        feeds = {**self.judged.inputs, **weights_held}
        subgraph = RunnableSubgraph("inside", tuple(feeds), tuple(names))
        (ran,) = run.executor.run_subgraphs([subgraph], lambda _: feeds)
        computed = ran.values
        constants = {**self.explaining.reruns.constants(group), **weights_held}
        known_values = {**self.judged.inputs, **computed}
        steps = []
        for op in ops:
            value = computed.get(op.outputs[0].name)
            if value is None or value.dtype.kind != "f" or value.size == 0:
                continue
            tensors = [ref.tensor for ref in golden.inputs(op)]
            steps.append(
                InsideStep(
                    op,
                    op.outputs[0].name,
                    value,
                    {name: known_values[name] for name in tensors if name in known_values},
                    {name: constants[name] for name in tensors if name in constants},
                )
            )
        return steps

    def replaced(self, guesses: Sequence[tuple[InsideStep, Array]]) -> Sequence[Array | None]:
        """The group's output if an op inside gave a value, for each guess."""

        def values(number: int) -> Mapping[str, Array]:
            step, value = guesses[number]
            return {step.tensor: value.astype(step.value.dtype)}

        changed = [(step.tensor,) for step, _ in guesses]
        return self.explaining.reruns.outputs_with(self.judged, changed, values)

    def remade(
        self, step: InsideStep, trials: Sequence[Mapping[str, Array]]
    ) -> Sequence[Array | None]:
        """The output of an op inside with other operands, for each trial."""
        changed = [tuple(trial) for trial in trials]
        return self.explaining.reruns.outputs_with(
            self.judged, changed, lambda number: trials[number], step
        )
