"""Ops whose values depend on no input of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from graphstore.model import InputRef, ModelGraph, Op


def constant_ops(graph: ModelGraph) -> frozenset[str]:
    """Ids of ops that depend on constants only; random ops are included, placeholders are not."""
    fed = {tensor.name for tensor in graph.inputs}

    def taken(op: Op) -> list[InputRef] | None:
        if op.owns or op.subgraph or op.type in _INPUTS:
            return None
        refs = [ref for ref in op.inputs if ref is not None]
        return None if any(ref.producer is None and ref.tensor in fed for ref in refs) else refs

    return settled_ops(graph.ops, taken)


def settled_ops(
    ops: Iterable[Op], operands: Callable[[Op], Iterable[InputRef] | None]
) -> frozenset[str]:
    """Ids of the *ops* that depend on nothing but each other. *operands* gives the inputs of an op,
    none for a leaf; None where its values vary anyway."""
    users: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    ready: list[str] = []
    for op in ops:
        refs = operands(op)
        if refs is None:
            continue
        makers = {ref.producer.op for ref in refs if ref.producer is not None}
        waiting[op.id] = len(makers)
        for maker in makers:
            users.setdefault(maker, []).append(op.id)
        if not makers:
            ready.append(op.id)
    settled: set[str] = set()
    while ready:
        op_id = ready.pop()
        settled.add(op_id)
        for user in users.get(op_id, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    return frozenset(settled)


_INPUTS = frozenset(
    (
        *("Placeholder", "PlaceholderWithDefault", "Input", "Data", "Feed"),
        # what reads the data of a training step
        *("GetNext", "IteratorGetNext", "IteratorGetNextSync", "IteratorV2", "OneShotIterator"),
        *("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "ReaderReadV2"),
    )
)
