"""What the arguments of TensorFlow's functions are where a function is called.

A body names its arguments; which input of its owner each is follows from who reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphstore.model import Framework, InputRef, ModelGraph, Op, TensorRef


def argument_values(graph: ModelGraph) -> dict[str, TensorRef]:
    """By the name of a body's argument the tensor it stands for, outside of all bodies or made in
    one; arguments that cannot be resolved are missing."""
    if graph.framework is not Framework.TENSORFLOW or not graph.subgraphs:
        return {}
    ops = graph.op_index()
    entries = _entries(graph, ops)
    values: dict[str, TensorRef] = {}
    for body in graph.subgraphs:  # outer ones come first
        for name, entry in entries[body.name].items():
            ref = _passed_input(ops, body.owner, entry)
            value = None if ref is None else ref.producer or values.get(ref.tensor)
            if value is not None:
                values[name] = value
    return values


def _entries(graph: ModelGraph, ops: Mapping[str, Op]) -> dict[str, dict[str, int]]:
    """By body: for each argument the number of the owner's input."""
    readers: dict[str, list[tuple[str, set[str]]]] = {body.name: [] for body in graph.subgraphs}
    for op in graph.ops:
        names = {ref.tensor for ref in op.inputs if ref is not None and ref.producer is None}
        if names and op.subgraph in readers:
            readers[op.subgraph].append((op.id, names))
    entries_of: dict[str, dict[str, int]] = {}
    for body in reversed(graph.subgraphs):
        entries: dict[str, set[int]] = {}
        for entry, reader in body.inputs:
            entries.setdefault(reader, set()).add(entry)
        own = entries_of[body.name] = _told_apart(readers[body.name], entries)
        around = ops[body.owner].subgraph if body.owner in ops else ""
        if around not in readers:
            continue
        for reader, names in readers[body.name]:  # they read the owner's input directly, too
            handed = [_passed_input(ops, body.owner, own[name]) for name in names if name in own]
            outer = {ref.tensor for ref in handed if ref is not None and ref.producer is None}
            if len(outer) == len(names):
                readers[around].append((reader, outer))
    return entries_of


def _passed_input(ops: Mapping[str, Op], owner: str, entry: int) -> InputRef | None:
    inputs = ops[owner].inputs if owner in ops else ()
    return inputs[entry] if entry < len(inputs) else None


def _told_apart(
    readers: list[tuple[str, set[str]]], entries: dict[str, set[int]]
) -> dict[str, int]:
    """The number of the owner's input for each argument, as far as its readers show it."""
    possible: dict[str, set[int]] = {}
    for op, names in readers:
        for name in names:
            possible[name] = possible.get(name, entries.get(op, set())) & entries.get(op, set())
    entry_of: dict[str, int] = {}
    while True:
        single = [name for name, entries_left in possible.items() if len(entries_left) == 1]
        if not single:
            return entry_of
        name = single[0]
        (entry,) = possible.pop(name)
        entry_of[name] = entry
        for entries_left in possible.values():
            entries_left.discard(entry)
