"""Ops whose values depend on no input of the model."""

from __future__ import annotations

from graphstore.model import ModelGraph


def constant_ops(graph: ModelGraph) -> frozenset[str]:
    """Ids of ops that take constants only; random ops are among them, placeholders not."""
    fed = {tensor.name for tensor in graph.inputs}
    users: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    ready: list[str] = []
    for op in graph.ops:
        makers = set()
        varies = bool(op.owns or op.subgraph or op.type in _INPUTS)
        for ref in op.inputs:
            if ref is not None and ref.producer is not None:
                makers.add(ref.producer.op)
            elif ref is not None and ref.tensor in fed:
                varies = True
        if varies:
            continue
        waiting[op.id] = len(makers)
        for maker in makers:
            users.setdefault(maker, []).append(op.id)
        if not makers:
            ready.append(op.id)
    found: set[str] = set()
    while ready:
        op_id = ready.pop()
        found.add(op_id)
        for user in users.get(op_id, ()):
            if user in waiting:
                waiting[user] -= 1
                if waiting[user] == 0:
                    ready.append(user)
    return frozenset(found)


_INPUTS = frozenset(
    (
        *("Placeholder", "PlaceholderWithDefault", "Input", "Data", "Feed"),
        # what reads the data of a training step
        *("GetNext", "IteratorGetNext", "IteratorGetNextSync", "IteratorV2", "OneShotIterator"),
        *("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "ReaderReadV2"),
    )
)
