"""Outputs of another shape than golden's: which op made it, and what only follows from it.

The original op, run on the device's own inputs, tells the shape that is right. An op that gives
another one is guilty, whatever its values. What reads its output is run on that, as it is, and
judged by itself like any other op.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.execute.contract import Alterable, Array, RunnableSubgraph
from divergraph.rootcause.causes.evidence import Cause, RunsSpentError
from divergraph.rootcause.causes.limits import SURE
from divergraph.rootcause.causes.reruns.shape_trials import ShapeFault
from divergraph.rootcause.causes.reruns.shapes import LABEL, shapes_text, wrong_shape
from divergraph.rootcause.explaining import Explaining
from divergraph.rootcause.groups.group_reruns import OpVerdict
from divergraph.rootcause.groups.groups import Group
from divergraph.rootcause.prepared import PreparedRun
from divergraph.rootcause.shape_metrics import without_ones
from divergraph.rootcause.values import relative
from graphstore.model import AttrValue, ErrorSplit, Finding, FindingKind, Guilt, Op, Role, TensorRef
from graphstore.traverse.topological_order import graph_arrays


@dataclass(frozen=True, slots=True)
class Misshapen:
    """What was found of outputs of another shape: the ``splits`` of those that ops are guilty of,
    with ``groups`` and ``findings``, and of those behind them on whose inputs no original op runs;
    the groups of all others behind them, which ``follow`` and are to be judged. ``verdicts`` are
    those of guilty ops whose values numpy's broadcasting brings to the right shape, as the ops
    behind them read them."""

    splits: Mapping[TensorRef, ErrorSplit] = field(default_factory=dict)
    groups: Mapping[TensorRef, Group] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    follow: Sequence[Group] = ()
    verdicts: Sequence[OpVerdict] = ()


def with_misshapen(run: PreparedRun) -> tuple[PreparedRun, Misshapen]:
    """*run* with the outputs that have another shape because an op of it is wrong, and what is
    known of these.

    Outputs whose shape nothing explains stay out of it, as before: the tensor may be matched
    wrongly, or its layout unknown.
    """
    if not run.unfit:
        return run, Misshapen()
    return _Search(run).all()


@dataclass
class _Search:
    run: PreparedRun
    guilty: dict[TensorRef, tuple[Group, ErrorSplit, Finding]] = field(default_factory=dict)
    follow: dict[TensorRef, Group] = field(default_factory=dict)
    unrun: dict[TensorRef, ErrorSplit] = field(default_factory=dict)
    verdicts: list[OpVerdict] = field(default_factory=list)
    explaining: Explaining = field(init=False)

    def __post_init__(self) -> None:
        self.explaining = Explaining(self.run)
        self._ops = self.run.inputs.data.device.op_index()

    def all(self) -> tuple[PreparedRun, Misshapen]:
        number = graph_arrays(self.run.inputs.data.device).number
        for output in sorted(self.run.unfit, key=lambda ref: (number[ref.op], ref.port)):
            self._look(output)
        misshapen = Misshapen(
            {**{ref: split for ref, (_, split, _) in self.guilty.items()}, **self.unrun},
            {ref: group for ref, (group, _, _) in self.guilty.items()},
            [finding for _, _, finding in self.guilty.values()],
            list(self.follow.values()),
            self.verdicts,
        )
        return self.run.with_misshapen(self._seen), misshapen

    @property
    def _seen(self) -> frozenset[TensorRef]:
        return frozenset((*self.guilty, *self.follow, *self.unrun))

    def _look(self, output: TensorRef) -> None:
        """Take up *output* if it is an op's fault that it has another shape, or follows from one
        that is."""
        run = self.run.with_misshapen({*self._seen, output})
        (group,) = run.groups_of([output])
        device = run.values.device(output)
        if device is None or self._is_of_a_node(output.op):
            return
        if group.is_passthrough is not None:
            if group.is_passthrough in self._seen:
                self.follow[output] = group
            return
        follows = not self._seen.isdisjoint(group.measured)
        feeds, missing = ({}, "its ops") if group.failure else run.runs.feeds(group)
        reference: Array | str = group.failure or f"no values of {missing}"
        if not missing:
            (reference,) = run.runs.references([group], [feeds])
        if isinstance(reference, str):
            if follows:  # the device went on with what the original op refuses
                self.unrun[output] = _behind(group)
        elif without_ones(reference.shape) == without_ones(device.shape):
            if follows or run.recorded:  # a recorded call is run on what it read, of any shape
                self.follow[output] = group
        elif follows:
            self.unrun[output] = _behind(group)
        else:
            self._convict(group, feeds, device, reference)

    def _is_of_a_node(self, op_id: str) -> bool:
        """Whether it is the way back of a function: the entry is that of its last node of autograd,
        which in another kernel may have another shape."""
        op = self._ops[op_id]
        is_function = op.attrs.get("kind") in ("Functional", "Tensor", "Torch")
        return is_function and op.attrs.get("direction") == "backward"

    def _convict(
        self, group: Group, feeds: Mapping[str, Array], device: Array, reference: Array
    ) -> None:
        run, output = self.run, group.output
        fault = ShapeFault(
            device,
            reference,
            [run.golden.ops[op_id] for op_id in group.ops],
            {**self._inside(group, feeds), **feeds},
            self.explaining.reruns.constants(group),
            self._again(group, feeds),
            self._is_fed_alike(group),
        )
        cause = self._cause(fault)
        if cause is None and (output in run.compared or not self._is_sure(group)):
            return
        cause = cause or Cause(LABEL, "", SURE, {})
        sentence = ": ".join(filter(None, (shapes_text(fault), cause.sentence)))
        shapes = {"shape": list(device.shape), "right": list(reference.shape)}
        finding = Finding(
            FindingKind.CAUSE,
            LABEL,
            sentence,
            output.op,
            port=output.port,
            confidence=cause.confidence,
            evidence={**shapes, **cause.evidence},
        )
        split = ErrorSplit(
            Role.INTRODUCES,
            Guilt.GUILTY,
            suspicion=math.inf,
            group=group.ops,
            reference=run.executor.name,
        )
        self.guilty[output] = group, split, finding
        golden = None if group.golden is None else run.values.golden(group.golden)
        if golden is not None and golden.shape == reference.shape:
            self._note_values(group, split, feeds, device, reference, golden)

    def _note_values(
        self,
        group: Group,
        split: ErrorSplit,
        feeds: Mapping[str, Array],
        device: Array,
        reference: Array,
        golden: Array,
    ) -> None:
        try:
            read = np.broadcast_to(device, reference.shape)
        except ValueError:
            return
        split = replace(split, introduced=relative(read, reference))
        self.verdicts.append(OpVerdict(group, split, read, reference, golden, feeds))

    def _cause(self, fault: ShapeFault) -> Cause | None:
        self.explaining.budget.begin()
        try:
            return wrong_shape(fault)
        except RunsSpentError:
            return None

    def _is_sure(self, group: Group) -> bool:
        """Whether the output surely stands for golden's, and the op had inputs of the right
        shape."""
        device = self.run.device.ops[group.output.op]
        golden = self.run.golden.ops[group.golden.op]
        alike = device.type == golden.type or device.name == golden.name
        return alike and self._is_fed_alike(group)

    def _is_fed_alike(self, group: Group) -> bool:
        """Whether all inputs are the device's: those of the model that it did not dump may be of
        another batch or size."""
        return all(
            feed.device is not None
            or feed.golden is not None
            or self.run.values.device_input(feed.tensor) is not None
            for feed in group.feeds
        )

    def _inside(self, group: Group, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """The tensors between the ops of a group, as the original ops give them."""
        ops = [self.run.golden.ops[op_id] for op_id in group.ops if op_id != group.golden.op]
        names = tuple(tensor.name for op in ops for tensor in op.outputs)
        piece = RunnableSubgraph("inside", tuple(feeds), names)
        results = self.run.executor.run_subgraphs([piece], lambda _: feeds) if names else ()
        return {name: value for ran in results for name, value in ran.values.items()}

    def _again(self, group: Group, feeds: Mapping[str, Array]) -> Callable[..., Array | None]:
        """Runs the group changed, and gives its output in whatever shape."""
        executor, name = self.run.executor, self.run.golden.name(group.golden)

        def again(
            op: Op, attrs: Mapping[str, AttrValue], values: Mapping[str, Array]
        ) -> Array | None:
            if not isinstance(executor, Alterable):
                return None
            self.explaining.budget.spend(len(group.ops))
            fed = {**feeds, **values}
            piece = RunnableSubgraph(name, tuple(fed), (name,))
            altered = executor.run_altered(piece, fed, op.outputs[0].name, attrs)
            return None if altered is None else altered[name]

        return again


def _behind(group: Group) -> ErrorSplit:
    """The split of an output that only follows from one of another shape."""
    return ErrorSplit(Role.CARRIES, propagated=math.inf, group=group.ops)
