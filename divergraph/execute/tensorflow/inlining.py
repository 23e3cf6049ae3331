"""Called functions put in the place of their calls, so that what happens in them can be fetched.

A SavedModel of TensorFlow 2 keeps the whole network in functions. The ops of a body get the ids
the model graph has for them, and the call becomes an IdentityN that hands the results on, so
every tensor is found under its name in the model graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from divergraph.execute.tensorflow.calls_in_place import CALLS, placed_bodies
from divergraph.execute.tensorflow.step import changes_outside
from graphstore.errors import ExecutionError
from graphstore.model import ModelGraph, Op, Subgraph


def inline_calls(definition: Any, graph: ModelGraph, fed: Set[str]) -> None:
    """Inline the calls of *definition*, of which *graph* was read, that change nothing.

    What reads a call's results reads them where they are made, unless the call is *fed*.
    """
    _Inliner(definition, graph).inline(fed)


class _Inliner:
    def __init__(self, definition: Any, graph: ModelGraph) -> None:
        self._definition = definition
        self._functions = {each.signature.name: each for each in definition.library.function}
        self._reasons = changes_outside(definition)
        self._bodies = placed_bodies(graph)
        self._results: dict[str, str] = {}
        """By result of a call, the tensor of its body; arguments handed through stay results."""
        self._ops: dict[str, list[Op]] = {}
        for op in graph.ops:
            if op.subgraph:
                self._ops.setdefault(op.subgraph, []).append(op)

    def inline(self, fed: Set[str]) -> None:
        waiting = list(self._definition.node)
        while waiting:
            node = waiting.pop()
            body = self._bodies.get(node.name)
            function = self._functions.get(_called(node))
            if body is not None and function is not None and self._can(function, body):
                waiting += self._replace(node, function, body)
        for node in self._definition.node:
            for at, each in enumerate(node.input):
                node.input[at] = self._made(each, fed)

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
        given = [each for each in call.input if not each.startswith("^")]
        before = [each for each in call.input if each.startswith("^")]
        args = {arg.name: given[at] for at, arg in enumerate(function.signature.input_arg)}
        attrs = call.attr if call.op in self._functions else call.attr["f"].func.attr
        types = _output_types(call, function)
        ops = self._ops[body.name]
        ids = {op.name: op.id for op in ops}
        for op, node in zip(ops, function.node_def, strict=True):
            yield self._added(op, node, _Place(args, ids, before, attrs))
        made = {port: f"{ref.op}:{ref.port}" for port, ref in body.outputs}
        self._results.update((f"{body.owner}:{port}", inner) for port, inner in made.items())
        for port, arg in enumerate(function.signature.output_arg):
            if port not in made:  # an argument handed through
                made[port] = _given(function.ret[arg.name], args)
        results = [made[port] for port in range(len(types))]
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
        data = [each for each in node.input if not each.startswith("^")]
        inputs: list[str] = []
        for entry, ref in zip(data, op.inputs, strict=True):
            producer = None if ref is None else ref.producer
            made = f"{producer.op}:{producer.port}" if producer else _given(entry, place.args)
            inputs.append(made)
        controls = (each[1:] for each in node.input if each.startswith("^"))
        inputs += [f"^{place.control(name)}" for name in controls]
        inputs += [each for each in place.before if each not in inputs]
        del new.input[:]
        new.input.extend(inputs)
        for name in list(new.attr):
            wanted = new.attr[name].placeholder
            if wanted and wanted in place.attrs:
                new.attr[name].CopyFrom(place.attrs[wanted])
        return new


class _Place:
    """Where a body is put: its arguments, its ops' new names, what runs before it."""

    def __init__(
        self,
        args: Mapping[str, str],
        ids: Mapping[str, str],
        before: Sequence[str],
        attrs: Mapping[str, Any],
    ) -> None:
        self.args = args
        self.ids = ids
        self.before = before
        self.attrs = attrs

    def control(self, name: str) -> str:
        """The op a control input of the body means."""
        return self.ids[name] if name in self.ids else self.args[name].partition(":")[0]


def _called(node: Any) -> str:
    return str(node.attr["f"].func.name if node.op in CALLS else node.op)


def _given(entry: str, args: Mapping[str, str]) -> str:
    found = args.get(entry, args.get(entry.removesuffix(":0")))
    if found is None:
        raise ExecutionError(f"a function of the model takes {entry!r}, which is nowhere")
    return found


def _output_types(call: Any, function: Any) -> list[int]:
    if call.op in CALLS:
        return list(call.attr["Tout"].list.type)
    outputs = function.signature.output_arg
    return [arg.type or call.attr[arg.type_attr].type for arg in outputs]
