"""Which outputs of a device dump their ops cannot have made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from divergraph.consistency.inputs import InputChecks, check_inputs
from divergraph.jobs.progress import NO_PROGRESS, Progress
from divergraph.rootcause.core import split_prepared
from divergraph.rootcause.options import DEFAULT_OPTIONS, RootCauseOptions
from divergraph.rootcause.run import everywhere
from divergraph.rootcause.run_inputs import Splits
from divergraph.verification.alone import (
    ChosenOps,
    LoneOps,
    chosen_readings,
    graph_of,
    inputs_of,
    opened,
    outputs_of,
)
from divergraph.verification.gaps import told, unjudged, unusable
from divergraph.verification.operands import DumpedOperands
from divergraph.verification.own_run import prepared
from divergraph.verification.rounded import on_either_side
from graphstore.model import (
    UNCLASSIFIED,
    DeviceArithmetic,
    ErrorSplit,
    Finding,
    Guilt,
    Op,
    Role,
    TensorRef,
    Verdict,
)
from graphstore.traverse.topological_order import graph_arrays

_NOT_CHECKED = InputChecks((), 0, 0)
_SURE = 0.5
_OPEN = "its graph gives not all its attributes, and no usual ones make its output"


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """An output its op cannot have made of its inputs; ``cause`` says what it made instead."""

    op: str
    type: str
    port: int
    split: ErrorSplit
    cause: str | None = None

    @property
    def suspicion(self) -> float:
        """The error over what the device's arithmetic explains."""
        return self.split.suspicion or 0.0


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found of one dump. ``verified`` ops were run, of the ``dumped`` ones that have
    outputs; ``not_covered`` says of the others why, by op id. ``wrong`` outputs are over the limit
    of guilt, ``suspects`` over that of suspicion, the most suspicious first. ``changed`` are dumped
    inputs that are not what their producers put out, of ``inputs`` compared. ``unjudged`` are ops
    that are not covered only because the tensors named are nowhere, ``gap`` what to do about it:
    where nothing is wrong with the others, the verdict is undecided."""

    verdict: Verdict
    wrong: tuple[WrongOutput, ...]
    suspects: tuple[WrongOutput, ...]
    changed: tuple[Finding, ...]
    dumped: int
    verified: int
    not_covered: Mapping[str, str]
    types: Mapping[str, int]
    """How many ops of each type are not covered."""
    inputs: int
    arithmetic: DeviceArithmetic
    executor: str
    doubt: str = ""
    unjudged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gap: str = ""
    remarks: tuple[str, ...] = ()
    splits: Mapping[TensorRef, ErrorSplit] = field(default_factory=dict)


def verify(
    operands: DumpedOperands,
    options: RootCauseOptions = DEFAULT_OPTIONS,
    progress: Progress = NO_PROGRESS,
    only: frozenset[str] | None = None,
) -> Verification:
    """Run each op of a dump (or *only* some) on what it read, and judge what it dumped.

    Raises:
        ExecutionError: nothing here runs ops.
    """
    device, dump = operands.graph, operands.dump
    progress.stage("reading the ops' inputs")
    lone = LoneOps(operands, only)
    left_out = dict(lone.left_out)
    results = Splits({}, {}, DeviceArithmetic(), "", ())
    with np.errstate(all="ignore"):  # dumps may hold any bits
        chosen = chosen_readings(device, lone.ops, options.memory // 4)
        if chosen.ops:
            alone = graph_of(
                device,
                (lone_op.op for lone_op in chosen.ops.values()),
                inputs_of(chosen.ops.values()),
            )
            with closing(opened(alone)) as executor:
                run = prepared(device, alone, chosen.ops, dump, executor, options)
                results = split_prepared(run, progress)
        splits = _telling_splits(chosen, results, left_out)
        doubted = [ref for ref, split in splits.items() if split.guilt is not Guilt.NONE]
        for ref in on_either_side(device, chosen.ops, doubted, options.memory // 4):
            splits[ref] = replace(splits[ref], guilt=Guilt.NONE, role=Role.CLEAN)
    arrays = graph_arrays(device)
    checks = check_inputs(device, list(arrays.ids), dump) if only is None else _NOT_CHECKED
    dumped = len(lone.ops) + len(lone.left_out)
    gaps = unjudged(device, left_out, lone.unread)
    return _report(operands, splits, results, left_out, checks, dumped, gaps)


def _telling_splits(
    chosen: ChosenOps, results: Splits, left_out: dict[str, str]
) -> dict[TensorRef, ErrorSplit]:
    """The splits that say something; why the others do not is added to *left_out*."""
    splits: dict[TensorRef, ErrorSplit] = {}
    for ref in outputs_of(chosen.ops):
        split = results.by_output.get(ref)
        if split is None or split.failure:
            why = "it was not run" if split is None else split.failure
            left_out.setdefault(ref.op, _short(why))
        elif ref.op in chosen.open and split.guilt is not Guilt.NONE:
            left_out.setdefault(ref.op, _OPEN)
        else:
            splits[ref] = split
    for op in {ref.op for ref in splits}:
        left_out.pop(op, None)
    return splits


def _named(sentence: str, op: Op) -> str:
    """*sentence* with the tensors *op* reads by their own names."""
    for at, ref in reversed(list(enumerate(op.inputs))):
        if ref is not None:
            sentence = sentence.replace(f"{op.id} < {at}", ref.tensor)
    return sentence


def _short(why: str) -> str:
    return " ".join(why.split())


def _report(
    operands: DumpedOperands,
    splits: Mapping[TensorRef, ErrorSplit],
    results: Splits,
    left_out: Mapping[str, str],
    checks: InputChecks,
    dumped: int,
    gaps: Mapping[str, tuple[str, ...]],
) -> Verification:
    ops = operands.graph.op_index()
    causes = {
        (finding.op, finding.port): _named(finding.sentence, ops[finding.op])
        for finding in results.findings
        if finding.label != UNCLASSIFIED
    }

    def over(guilt: Guilt) -> tuple[WrongOutput, ...]:
        wrong = [
            WrongOutput(ref.op, ops[ref.op].type, ref.port, split, causes.get((ref.op, ref.port)))
            for ref, split in splits.items()
            if split.guilt is guilt
        ]
        return tuple(sorted(wrong, key=lambda output: -output.suspicion))

    wrong = over(Guilt.GUILTY)
    doubt = everywhere(results, splits)
    surely = tuple(finding for finding in checks.findings if finding.confidence >= _SURE)
    verdict = Verdict.DIVERGED if wrong or surely else Verdict.CLEAN
    if not splits:
        verdict = Verdict.NOT_COMPARED
    elif doubt or (gaps and verdict is Verdict.CLEAN):
        verdict = Verdict.UNDECIDED
    return Verification(
        verdict,
        wrong,
        over(Guilt.SUSPECT),
        checks.findings,
        dumped,
        len({ref.op for ref in splits}),
        left_out,
        dict(Counter(ops[op].type for op in left_out).most_common()),
        checks.held,
        results.arithmetic,
        results.executor,
        doubt,
        gaps,
        told(operands.graph, gaps),
        (*results.remarks, *unusable(operands.dump)),
        splits,
    )
