"""A TensorFlow graph with the ops of called functions in the place of their calls.

A SavedModel of TensorFlow 2 keeps the whole network in functions. Each call runs its body once,
so its ops run as those around it do; only what changes state outside of a body stays a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from divergraph.execute.tensorflow.step import changes_outside, reaches_outside
from graphstore.errors import ExecutionError
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
    open_bodies: set[str] = set()
    for op in graph.ops:
        inside = op.subgraph if reaches_outside(op.type) or not _NAME.fullmatch(op.id) else ""
        while inside and inside not in open_bodies:
            open_bodies.add(inside)
            inside = ops[owners[inside]].subgraph
    bodies: dict[str, Subgraph] = {}
    for body in graph.subgraphs:  # outer ones come first
        owner = ops.get(body.owner)
        if owner is None or body.role != "f" or body.name in open_bodies:
            continue
        around = owners.get(owner.subgraph, "")
        if (owner.type in CALLS or "f" not in owner.attrs) and (not around or around in bodies):
            bodies[owner.id] = body
    return bodies


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
            producer = ref.producer
            if producer is None:
                if ref.tensor not in self._args:
                    return ref
                ref = self._args[ref.tensor]
                continue
            inner = self._results.get(producer.op, {}).get(producer.port)
            if inner is None:
                return InputRef(self._ops[producer.op].outputs[producer.port].name, producer)
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
            free_argument = next((argument for argument, by in free.items() if by == readers), None)
            if free_argument is not None:
                del free[free_argument]
                yield name, self._called[body.name].inputs[free_argument]


# The ops of a body get the ids the model graph has for them, and the call becomes an IdentityN
# that hands the results on, so every tensor is found under its name in the model graph.
class CallInliner:
    """Inlines the calls of *definition*, of which *graph* was read, that change nothing."""

    def __init__(self, definition: Any, graph: ModelGraph) -> None:
        self._definition = definition
        self._functions = {
            function.signature.name: function for function in definition.library.function
        }
        self._reasons = changes_outside(definition)
        self._bodies = placed_bodies(graph)
        self._results: dict[str, str] = {}
        """By result of a call, the tensor of its body; arguments handed through stay results."""
        self._ops: dict[str, list[Op]] = {}
        for op in graph.ops:
            if op.subgraph:
                self._ops.setdefault(op.subgraph, []).append(op)

    def inline(self, fed: Set[str]) -> None:
        """What reads a call's results reads them where they are made, unless the call is *fed*."""
        waiting = list(self._definition.node)
        while waiting:
            node = waiting.pop()
            body = self._bodies.get(node.name)
            function = self._functions.get(_called(node))
            if body is not None and function is not None and self._can(function, body):
                waiting += self._replace(node, function, body)
        for node in self._definition.node:
            for at, entry in enumerate(node.input):
                node.input[at] = self._made(entry, fed)

    def _made(self, entry: str, fed: Set[str]) -> str:
        while (full := entry if ":" in entry else f"{entry}:0") not in fed:
            if full not in self._results:
                break
            entry = self._results[full]
        return entry

    def _can(self, function: Any, body: Subgraph) -> bool:
        ops = self._ops.get(body.name, [])
        return function.signature.name not in self._reasons and [op.name for op in ops] == [
            node.name for node in function.node_def
        ]

    def _replace(self, call: Any, function: Any, body: Subgraph) -> Iterator[Any]:
        """Add the nodes of a body, make the call hand on its results."""
        arguments = [entry for entry in call.input if not entry.startswith("^")]
        before = [entry for entry in call.input if entry.startswith("^")]
        args = {arg.name: arguments[at] for at, arg in enumerate(function.signature.input_arg)}
        attrs = call.attr if call.op in self._functions else call.attr["f"].func.attr
        types = _output_types(call, function)
        ops = self._ops[body.name]
        ids = {op.name: op.id for op in ops}
        for op, node in zip(ops, function.node_def, strict=True):
            yield self._added(op, node, _Place(args, ids, before, attrs))
        outputs = {port: f"{ref.op}:{ref.port}" for port, ref in body.outputs}
        self._results.update((f"{body.owner}:{port}", inner) for port, inner in outputs.items())
        for port, arg in enumerate(function.signature.output_arg):
            if port not in outputs:  # an argument handed through
                outputs[port] = _argument(function.ret[arg.name], args)
        results = [outputs[port] for port in range(len(types))]
        after = [f"^{ids[name]}" for name in sorted(set(function.control_ret.values()))]
        call.Clear()
        call.name = body.owner
        call.op = "IdentityN" if results else "NoOp"
        call.input.extend([*results, *after, *(before if not after else ())])
        if results:
            call.attr["T"].list.type.extend(types)

    def _added(self, op: Op, node: Any, place: _Place) -> Any:
        new = self._definition.node.add()
        new.CopyFrom(node)
        new.name = op.id
        data = [entry for entry in node.input if not entry.startswith("^")]
        inputs: list[str] = []
        for entry, ref in zip(data, op.inputs, strict=True):
            producer = None if ref is None else ref.producer
            source = f"{producer.op}:{producer.port}" if producer else _argument(entry, place.args)
            inputs.append(source)
        controls = (entry[1:] for entry in node.input if entry.startswith("^"))
        inputs += [f"^{place.control(name)}" for name in controls]
        inputs += [entry for entry in place.before if entry not in inputs]
        del new.input[:]
        new.input.extend(inputs)
        for name in list(new.attr):
            wanted = new.attr[name].placeholder
            if wanted and wanted in place.attrs:
                new.attr[name].CopyFrom(place.attrs[wanted])
        return new


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a body is put: its arguments, its ops' new names, what runs before it."""

    args: Mapping[str, str]
    ids: Mapping[str, str]
    before: Sequence[str]
    attrs: Mapping[str, Any]

    def control(self, name: str) -> str:
        """The op a control input of the body means."""
        return self.ids[name] if name in self.ids else self.args[name].partition(":")[0]


def _called(node: Any) -> str:
    return str(node.attr["f"].func.name if node.op in CALLS else node.op)


def _argument(entry: str, args: Mapping[str, str]) -> str:
    argument = args.get(entry, args.get(entry.removesuffix(":0")))
    if argument is None:
        raise ExecutionError(f"a function of the model takes {entry!r}, which is nowhere")
    return argument


def _output_types(call: Any, function: Any) -> list[int]:
    if call.op in CALLS:
        return list(call.attr["Tout"].list.type)
    outputs = function.signature.output_arg
    return [arg.type or call.attr[arg.type_attr].type for arg in outputs]
