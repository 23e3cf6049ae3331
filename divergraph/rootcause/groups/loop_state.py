"""State that TensorFlow 1 loops keep between iterations: tensor arrays and stacks.

A TensorArray is written and read by ops that pass on a *flow*, a float whose only meaning is their
order. A loop pushes values onto stacks and the loop of its gradient pops them; no edge of the graph
shows that dependence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphstore.model import InputRef, ModelGraph, Op, TensorRef
from graphstore.traverse.reach import reached

_FLOWS = ("TensorArray", "TensorArrayGrad", "TensorArrayScatter", "TensorArrayWrite")
_SPLITS = ("TensorArraySplit",)
_HANDS_ON = frozenset(("Identity", "Enter", "Exit", "Merge", "Switch", "NextIteration"))
_ENTERS, _EXITS = frozenset(("Enter", "RefEnter")), frozenset(("Exit", "RefExit"))
TURNS = frozenset(("NextIteration", "RefNextIteration"))
"""Ops that only loops have: a group with one of them runs as a whole or not at all."""


def flows(graph: ModelGraph) -> frozenset[TensorRef]:
    """The tensors that only order ops; their values mean nothing."""
    readers: dict[TensorRef, list[Op]] = {}
    for op in graph.ops:
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                readers.setdefault(ref.producer, []).append(op)
    starts = [op for op in graph.ops if op.type.rstrip("V234") in (*_FLOWS, *_SPLITS)]

    def handed_on(flow: TensorRef) -> Iterator[TensorRef]:
        handing = (op for op in readers.get(flow, ()) if op.type in _HANDS_ON)
        return (output for op in handing for output in _outputs(op))

    return frozenset(reached((output for op in starts for output in _outputs(op)), handed_on))


def _outputs(op: Op) -> Iterator[TensorRef]:
    return (TensorRef(op.id, port) for port in range(len(op.outputs)))


def unchanged(graph: ModelGraph) -> frozenset[TensorRef]:
    """The outputs of ops with bodies that no body makes: each of them hands on what it was given,
    as loops do with weights."""
    ops = graph.op_index()
    unchanged_ports: dict[str, set[int]] = {}
    for body in graph.subgraphs:
        unchanged_ports.setdefault(body.owner, set()).update(
            port for port, ref in body.outputs if not _hands_on(ops, ops.get(ref.op))
        )
    owners = (ops[owner] for owner in unchanged_ports if owner in ops)
    return frozenset(
        TensorRef(owner.id, port)
        for owner in owners
        for port in range(len(owner.outputs))
        if port not in unchanged_ports[owner.id]
    )


def _hands_on(ops: Mapping[str, Op], op: Op | None) -> bool:
    """Whether *op* only hands on what its body was given."""
    while op is not None and op.type == "Identity" and op.inputs and op.inputs[0] is not None:
        producer = op.inputs[0].producer
        if producer is None:
            return True
        op = ops.get(producer.op)
    return False


def inside_loops(graph: ModelGraph) -> frozenset[str]:
    """The ids of ops that run once per iteration of a loop, including those that enter it."""
    users: dict[str, list[str]] = {}
    for op in graph.ops:
        makers = [ref.producer.op for ref in op.inputs if ref is not None and ref.producer]
        for maker in (makers or op.control_inputs) if op.type not in _EXITS else ():
            users.setdefault(maker, []).append(op.id)
    starts = (op.id for op in graph.ops if op.type in _ENTERS)
    return frozenset(reached(starts, lambda op: users.get(op, ())))


def pushed(graph: ModelGraph) -> dict[str, tuple[InputRef, ...]]:
    """By id of each op that pops from a stack: all tensors that are pushed onto that stack."""
    ops = graph.op_index()
    pushes: dict[str, list[InputRef]] = {}
    for op in _of(graph, "StackPush"):
        pushed_ref = InputRef(op.outputs[0].name, TensorRef(op.id, 0))
        pushes.setdefault(_stack(op, ops), []).append(pushed_ref)
    return {op.id: tuple(pushes.get(_stack(op, ops), ())) for op in _of(graph, "StackPop")}


def _of(graph: ModelGraph, kind: str) -> Iterator[Op]:
    return (op for op in graph.ops if op.type.startswith(kind) and op.inputs and op.outputs)


def _stack(op: Op, ops: dict[str, Op]) -> str:
    """The op that made the stack *op* works on."""
    seen: set[str] = set()
    while op.inputs and op.id not in seen and op.type.rstrip("V2") != "Stack":
        seen.add(op.id)
        first = op.inputs[0]
        if first is None or first.producer is None:
            break
        op = ops[first.producer.op]
    return op.id
