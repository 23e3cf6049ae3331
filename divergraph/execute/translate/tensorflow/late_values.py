"""Reads of variables behind their changes, as reads of what the changing ops leave.

Which op reads behind which changes, control inputs say (``execute/tensorflow/late_reads.py``).
Here that becomes a tensor: what the last of these ops makes of the variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from divergraph.execute.tensorflow.branches import HANDLES, VARIABLES
from divergraph.execute.tensorflow.late_reads import first_read, late_reads
from graphstore.model import InputRef, ModelGraph, Op, Tensor, TensorRef

LEFT = "\nleft"
"""Behind the name of an op without outputs: what it leaves of the variable it takes first."""
_SAME_MEMORY = frozenset(("Identity", "RefIdentity"))


def with_late_values(graph: ModelGraph) -> tuple[ModelGraph, frozenset[str]]:
    """*graph* with its late reads as data, and the ops of which it cannot be told what they read:
    those behind a function's changes, or behind those of an optimiser's own variables, and those
    in no order with a change."""
    late = late_reads(graph)
    if not late:
        return graph, frozenset()
    ops = graph.op_index()
    inputs: dict[str, tuple[InputRef | None, ...]] = {}
    leave: set[str] = set()
    untold: set[str] = set()
    for op_id, read in late.items():
        old = ops[op_id].inputs
        refs = [_value_after(ref, read.writers, ops) for ref in old]
        known_refs = [ref for ref in refs if ref is not None]
        if not read.ordered or not known_refs or any(ref.producer is None for ref in known_refs):
            untold.add(op_id)
            continue
        inputs[op_id] = tuple(new or ref for ref, new in zip(old, refs, strict=True))
        leave.update(ref.producer.op for ref in known_refs if ref.producer is not None)
    changed = {op_id: replace(ops[op_id], inputs=refs) for op_id, refs in inputs.items()}
    for op_id in leave:
        op = changed.get(op_id, ops[op_id])
        variable = _variable(op.inputs[0], ops)
        before = first_read(graph, variable, late) if op_id not in inputs else None
        if before is not None:
            op = changed[op_id] = replace(op, inputs=(before, *op.inputs[1:]))
        if not op.outputs:
            changed[op_id] = replace(op, outputs=(Tensor(_left_value(op_id), None),))
    return replace(graph, ops=tuple(changed.get(op.id, op) for op in graph.ops)), frozenset(untold)


def _value_after(
    ref: InputRef | None, writers: Sequence[str], ops: Mapping[str, Op]
) -> InputRef | None:
    """What *ref* is behind the *writers*; None if they do not change it, a reference to nothing
    if it cannot be told."""
    variable = _variable(ref, ops)
    last = next((w for w in reversed(writers) if variable in _variables_read(ops[w], ops)), "")
    if not variable or not last:
        return None
    writer = ops[last]
    if _variable(writer.inputs[0], ops) != variable:
        return InputRef("")
    if ops[variable].type in HANDLES:
        return InputRef(_left_value(last), TensorRef(last, 0))
    return InputRef(writer.outputs[0].name, TensorRef(last, 0)) if writer.outputs else InputRef("")


def _variable(ref: InputRef | None, ops: Mapping[str, Op]) -> str:
    """The variable *ref* is, or shares its memory with; empty if none."""
    producer = None if ref is None else ref.producer
    while producer is not None:
        op = ops[producer.op]
        if op.type in VARIABLES:
            return op.id
        producer = op.source() if op.type in _SAME_MEMORY else None
    return ""


def _variables_read(op: Op, ops: Mapping[str, Op]) -> set[str]:
    return {_variable(ref, ops) for ref in op.inputs} - {""}


def _left_value(writer: str) -> str:
    return writer + LEFT
