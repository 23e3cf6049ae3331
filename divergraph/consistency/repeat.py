"""Two dumps of the same graph on the same device must be the same, bit by bit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from divergraph.consistency.first_ops import FirstOp, finding, first_ops
from divergraph.consistency.inputs import difference_evidence
from divergraph.consistency.values import Difference, difference
from graphstore.model import Finding, ModelGraph, TensorIO
from graphstore.traverse.arrays import GraphArrays
from importers.dumps.index import DumpIndex

NOT_DETERMINISTIC = "not_deterministic"
INPUTS_DIFFER = "inputs_differ"
RANDOM = "random_op"

RANDOM_TYPES = re.compile(
    r".*(Random|Dropout|DropOut|StatelessRandom|Multinomial|Bernoulli|TruncatedNormal)"
)


@dataclass(frozen=True, slots=True)
class RepeatChecks:
    """``held`` outputs were in both dumps and could be compared, ``differing`` are not equal."""

    findings: tuple[Finding, ...]
    held: int
    differing: int


def check_repeat(
    graph: ModelGraph, arrays: GraphArrays, one: DumpIndex, other: DumpIndex
) -> RepeatChecks:
    """A finding for each op whose outputs differ between two runs although everything measured
    before it is the same; ops after it are not named.

    ``not_deterministic``: the op's own result varies. ``inputs_differ``: the runs were given
    different data there, so nothing can be said. ``random_op``: it is meant to vary.
    """
    ops = graph.op_index()
    measured: set[str] = set()
    worst: dict[str, tuple[int, Difference]] = {}
    compared = differing = 0
    for (op, io, port), ref in sorted(one.tensors.items(), key=lambda item: item[0]):
        again = other.tensors.get((op, io, port))
        if io is not TensorIO.OUTPUT or again is None:
            continue
        unlike = difference(ref, again)
        if unlike is None:
            continue
        compared += 1
        measured.add(op)
        if unlike.different:
            differing += 1
            if op not in worst or unlike.largest > worst[op][1].largest:
                worst[op] = port, unlike
    findings = tuple(
        _finding(first, ops[first.op].type, *worst[first.op], one, other)
        for first in first_ops(arrays, measured, worst)
    )
    return RepeatChecks(findings, compared, differing)


def _inputs(op: str, one: DumpIndex, other: DumpIndex) -> list[int]:
    """The dumped inputs of *op* that differ."""
    inputs = []
    for (owner, io, port), ref in one.tensors.items():
        if owner != op or io is not TensorIO.INPUT:
            continue
        again = other.tensors.get((owner, io, port))
        unlike = None if again is None else difference(ref, again)
        if unlike is not None and unlike.different:
            inputs.append(port)
    return sorted(inputs)


def _finding(
    first: FirstOp, kind: str, port: int, unlike: Difference, one: DumpIndex, other: DumpIndex
) -> Finding:
    op, inputs = first.op, _inputs(first.op, one, other)
    amount = (
        f"{unlike.different} of {unlike.elements} elements differ, by {unlike.largest:.6g} at most"
    )
    label, confidence = NOT_DETERMINISTIC, 0.9
    if inputs:
        label, confidence = INPUTS_DIFFER, 0.9
        sentence = (
            f"the two runs gave {op} different data: its dumped input {inputs[0]} differs, "
            "so they cannot tell whether the device is deterministic from here on"
        )
    elif RANDOM_TYPES.match(kind):
        label, confidence = RANDOM, 1.0
        sentence = (
            f"{op} ({kind}) makes random numbers: output {port} varies as it should, {amount}"
        )
    elif not first.known:
        confidence = 0.5
        sentence = (
            f"{op} ({kind}) differs between the two runs, {amount}; nothing before it was dumped, "
            "so the runs may also have been given different data"
        )
    else:
        sentence = (
            f"{op} ({kind}) is not deterministic: output {port} differs between the two runs, "
            f"{amount}, while everything dumped before it is the same"
        )
    if first.later:
        sentence += f"; {first.later} later ops differ with it"
    evidence = {**difference_evidence(unlike), "later_ops": first.later, "differing_inputs": inputs}
    return finding(label, sentence, (op, TensorIO.OUTPUT, port), confidence, evidence)
