"""An op's dumped input must equal its producer's dumped output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from divergraph.consistency.first_ops import finding
from divergraph.consistency.values import Difference, difference
from graphstore.model import (
    DumpTensorRef,
    EvidenceValue,
    Finding,
    ModelGraph,
    Op,
    TensorIO,
    TensorRef,
)
from importers.dumps.index import DumpIndex

CHANGED = "input_changed"
OVERWRITTEN = "input_possibly_overwritten"

_SURE, _POSSIBLE = 0.9, 0.3

_SAME_MEMORY = frozenset(
    {
        *("Reshape", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2"),
        *("UnsqueezeV3", "ExpandDims", "Flatten", "FlattenV2", "Identity", "StopGradient"),
        *("PreventGradient", "Snapshot", "Bitcast"),
    }
)
"""Ops whose output has the bytes of their first input; often they run no task."""

_SAME_VALUES = frozenset({"TransData", "Cast", "TransDataRNN", "ReFormat"})
"""Ops that only move or round values; those that were not dumped are skipped."""

_WRITES_INPUT = re.compile(
    r"Assign|(Resource)?(Sparse)?Apply|Scatter(Nd|ND)?(Add|Sub|Update|Mul|Div|Max|Min)|"
    r"Inplace|.*Ref$|Variable|KVCache|.*Update$"
)
_IN_PLACE_ATTRIBUTES = ("inplace", "reuse_input", "reuse_output", "ref_port")


@dataclass(frozen=True, slots=True)
class InputChecks:
    """``held`` dumped inputs were compared with their producers' outputs; ``skipped`` had none, or
    one that cannot be compared."""

    findings: tuple[Finding, ...]
    held: int
    skipped: int


def check_inputs(graph: ModelGraph, order: Sequence[str], index: DumpIndex) -> InputChecks:
    """A finding for each dumped input that is not its producer's dumped output.

    ``input_changed``: something wrote to the memory in between, or one dump is damaged.
    ``input_possibly_overwritten``: an op that writes its input in place, or a loop, may
    be the harmless reason; dumps are taken after the op ran.
    """
    ops = graph.op_index()
    writers = _writers(graph)
    ports: dict[str, list[int]] = {}
    for op, io, port in sorted(index.tensors):
        if io is TensorIO.INPUT:
            ports.setdefault(op, []).append(port)
    findings: list[Finding] = []
    compared = skipped = 0
    for op_id in order:
        for port in ports.get(op_id, ()):
            producer = None if graph.has_guessed_edges else _made_by(ops, index, op_id, port)
            dumped = index.tensors[op_id, TensorIO.INPUT, port]
            unlike = (
                None
                if producer is None
                else difference(dumped, producer[1], _layout(ops, producer[0]))
            )
            if producer is None or unlike is None:
                skipped += 1
                continue
            compared += 1
            if unlike.different:
                reason = _harmless(ops[op_id], dumped, producer, writers, index)
                findings.append(_finding(op_id, port, dumped, producer, unlike, reason))
    return InputChecks(tuple(findings), compared, skipped)


def _made_by(
    ops: Mapping[str, Op], index: DumpIndex, op_id: str, port: int
) -> tuple[TensorRef, DumpTensorRef] | None:
    """The dumped output that this input is, found through ops that keep the bytes; None without
    one."""
    seen: set[str] = set()
    op, position = ops[op_id], port
    while True:
        ref = op.inputs[position] if position < len(op.inputs) else None
        if ref is None or ref.producer is None or ref.producer.op not in ops:
            return None
        producer = ref.producer
        dumped = index.tensors.get((producer.op, TensorIO.OUTPUT, producer.port))
        if dumped is not None:
            return producer, dumped
        op, position = ops[producer.op], 0
        if op.type not in _SAME_MEMORY | _SAME_VALUES or op.id in seen:
            return None
        seen.add(op.id)


def _layout(ops: Mapping[str, Op], ref: TensorRef) -> str | None:
    outputs = ops[ref.op].outputs
    origin = outputs[ref.port].origin if ref.port < len(outputs) else None
    return None if origin is None else origin.layout


def _writers(graph: ModelGraph) -> dict[TensorRef, list[str]]:
    """For each tensor the ops that read it and may overwrite it in place."""
    writers: dict[TensorRef, list[str]] = {}
    for op in graph.ops:
        if not _may_write(op):
            continue
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                writers.setdefault(ref.producer, []).append(op.id)
    return writers


def _may_write(op: Op) -> bool:
    if _WRITES_INPUT.match(op.type):
        return True
    return any(
        word in name.lower() and value not in (False, 0, "", ())
        for name, value in op.attrs.items()
        for word in _IN_PLACE_ATTRIBUTES
    )


def _harmless(
    op: Op,
    dumped: DumpTensorRef,
    producer: tuple[TensorRef, DumpTensorRef],
    writers: Mapping[TensorRef, Sequence[str]],
    index: DumpIndex,
) -> str:
    """Why the difference may be harmless; empty without a reason."""
    source, output = producer
    if _may_write(op):
        return f"{op.type} may write its input in place, and dumps are taken after it ran"
    for port in range(len(op.outputs)):
        own = index.tensors.get((op.id, TensorIO.OUTPUT, port))
        if own is None:
            continue
        if own.address and own.address == dumped.address:  # 0: not recorded
            return f"its output {port} lies at the same address"
        same = difference(dumped, own)
        if same is not None and not same.different:
            return f"it holds the same values as the op's own output {port}"
    others = [name for name in writers.get(source, ()) if name != op.id]
    if others:
        return f"{others[0]} takes the same tensor and may write it in place"
    if dumped.timestamp and output.timestamp > dumped.timestamp:
        return "the producer's dump is the later one, as in a loop"
    return ""


def _finding(
    op_id: str,
    port: int,
    dumped: DumpTensorRef,
    producer: tuple[TensorRef, DumpTensorRef],
    unlike: Difference,
    harmless: str,
) -> Finding:
    source, output = producer
    where = f"elements {unlike.first} to {unlike.last}"
    if not unlike.in_one_piece:
        where = f"between elements {unlike.first} and {unlike.last}"
    sentence = (
        f"input {port} of {op_id} is not what {source} put out: "
        f"{unlike.different} of {unlike.elements} elements differ, {where}"
    )
    sentence += (
        f" (possibly harmless: {harmless})"
        if harmless
        else ("; something wrote to its memory in between, or one of the dumps is damaged")
    )
    return finding(
        OVERWRITTEN if harmless else CHANGED,
        sentence,
        (op_id, TensorIO.INPUT, port),
        _POSSIBLE if harmless else _SURE,
        {
            "producer": source.op,
            "producer_output": source.port,
            **difference_evidence(unlike),
            "input_file": dumped.path.name,
            "output_file": output.path.name,
            **({"input_address": dumped.address} if dumped.address else {}),
            **({"output_address": output.address} if output.address else {}),
            **({"possible_reason": harmless} if harmless else {}),
        },
    )


def difference_evidence(unlike: Difference) -> dict[str, EvidenceValue]:
    """The numbers of a difference, as evidence of a finding."""
    return {
        "elements": unlike.elements,
        "different": unlike.different,
        "first_different": unlike.first,
        "last_different": unlike.last,
        "in_one_piece": unlike.in_one_piece,
        "largest_difference": unlike.largest,
    }
