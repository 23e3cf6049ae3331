"""A TensorFlow graph with the ops of called functions in the place of their calls.

A SavedModel of TensorFlow 2 keeps the whole network in functions. Each call runs its body once,
so its ops run as those around it do; only what changes state outside of a body stays a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from divergraph.execute.tensorflow.step import reaches_outside
from graphstore.model import Framework, InputRef, ModelGraph, Op, Subgraph

CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""What TensorFlow takes as the name of an op outside of functions."""


def placed_bodies(graph: ModelGraph) -> dict[str, Subgraph]:
    """The bodies whose ops can stand in the place of the call, by the op that calls."""
    if graph.framework is not Framework.TENSORFLOW or not graph.subgraphs:
        return {}
    ops = graph.op_index()
    owners = {body.name: body.owner for body in graph.subgraphs}
    left: set[str] = set()
    for op in graph.ops:
        inside = op.subgraph if reaches_outside(op.type) or not _NAME.fullmatch(op.id) else ""
        while inside and inside not in left:
            left.add(inside)
            inside = ops[owners[inside]].subgraph
    found: dict[str, Subgraph] = {}
    for body in graph.subgraphs:  # outer ones come first
        owner = ops.get(body.owner)
        if owner is None or body.role != "f" or body.name in left:
            continue
        around = owners.get(owner.subgraph, "")
        if (owner.type in CALLS or "f" not in owner.attrs) and (not around or around in found):
            found[owner.id] = body
    return found


def calls_in_place(graph: ModelGraph) -> ModelGraph:
    """*graph* without the bodies of :func:`placed_bodies`: their ops are ops of the graph, which
    read what the call was given. A call hands on what its body makes, and all others read that
    from where it is made. Ids of ops and names of tensors are the same."""
    placed = placed_bodies(graph)
    return _Placing(graph, placed).graph() if placed else graph


class _Placing:
    def __init__(self, graph: ModelGraph, placed: Mapping[str, Subgraph]) -> None:
        self._graph = graph
        self._placed = placed
        self._ops = graph.op_index()
        self._called = {body.name: self._ops[owner] for owner, body in placed.items()}
        self._results = {owner: dict(body.outputs) for owner, body in placed.items()}
        inside: dict[str, list[Op]] = {name: [] for name in self._called}
        for op in graph.ops:
            if op.subgraph in inside:
                inside[op.subgraph].append(op)
        self._args: dict[str, InputRef | None] = {}
        for body in placed.values():
            self._args.update(self._arguments(body, inside[body.name]))

    def graph(self) -> ModelGraph:
        bodies = tuple(body for body in self._graph.subgraphs if body.name not in self._called)
        return replace(self._graph, ops=tuple(map(self._op, self._graph.ops)), subgraphs=bodies)

    def _op(self, op: Op) -> Op:
        if op.subgraph and op.subgraph not in self._called:
            return op
        if op.id in self._placed:
            return replace(op, inputs=tuple(self._handed_on(op)), subgraph="", owns=())
        controls = list(op.control_inputs)
        inside = op.subgraph
        while inside:
            controls += self._called[inside].control_inputs
            inside = self._called[inside].subgraph
        inputs = tuple(map(self._made, op.inputs))
        return replace(
            op, inputs=inputs, control_inputs=tuple(dict.fromkeys(controls)), subgraph=""
        )

    def _handed_on(self, call: Op) -> Iterator[InputRef | None]:
        results = self._results[call.id]
        for port in range(len(call.outputs)):
            if port in results:
                yield self._made(InputRef("", results[port]))
        if len(results) < len(call.outputs):
            yield from map(self._made, call.inputs)  # some are handed through

    def _made(self, ref: InputRef | None) -> InputRef | None:
        """*ref* as what makes it outside of calls is known."""
        while ref is not None:
            made = ref.producer
            if made is None:
                if ref.tensor not in self._args:
                    return ref
                ref = self._args[ref.tensor]
                continue
            inner = self._results.get(made.op, {}).get(made.port)
            if inner is None:
                return InputRef(self._ops[made.op].outputs[made.port].name, made)
            ref = InputRef("", inner)
        return ref

    def _arguments(self, body: Subgraph, ops: list[Op]) -> Iterator[tuple[str, InputRef | None]]:
        """The names of a body's arguments, and what the call gives for each.

        Arguments are told apart by the ops that read them; those that the same ops read are
        taken in the order in which they are read.
        """
        names: dict[str, set[str]] = {}
        for op in ops:
            for ref in op.inputs:
                if ref is not None and ref.producer is None:
                    names.setdefault(ref.tensor, set()).add(op.id)
        own = {op.id for op in ops}
        entries: dict[int, set[str]] = {}
        for entry, reader in body.inputs:
            if reader in own:
                entries.setdefault(entry, set()).add(reader)
        free = dict(entries)
        for name, readers in names.items():
            found = next((each for each, by in free.items() if by == readers), None)
            if found is not None:
                del free[found]
                yield name, self._called[body.name].inputs[found]
