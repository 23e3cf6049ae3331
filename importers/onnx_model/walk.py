"""Walk an ONNX graph and the bodies inside it into ops, constants and sub-graphs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from graphstore.model import (
    AttrValue,
    Constant,
    InputRef,
    Op,
    Subgraph,
    Tensor,
    TensorRef,
)
from importers.kept import some
from importers.names import UniqueIds
from importers.onnx_model.values import attr_value, constant, tensor_of

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TypeProto

_Value: TypeAlias = "TensorRef | str"
"""Who makes a tensor: an op's output, or the name of a graph input or constant."""


@dataclass(slots=True)
class _Scope:
    """The tensor names one graph sees: its own and those of the graphs around it."""

    around: _Scope | None
    values: dict[str, _Value] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)

    def find(self, name: str) -> _Value | None:
        """Who makes *name*; None if nobody does."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.around
        return None


@dataclass(slots=True)
class _Body:
    """A graph to walk: its name (empty: the root), its owner and what it sees."""

    graph: GraphProto
    name: str
    scope: _Scope
    owner: str = ""
    role: str = ""
    node: NodeProto | None = None


class GraphWalk:
    """The ops of *graph* in file order, then those of its bodies, level by level."""

    def __init__(self, graph: GraphProto) -> None:
        self.ops: list[Op] = []
        self.subgraphs: list[Subgraph] = []
        self.constants: dict[str, Constant] = {}
        self.outputs: list[TensorRef] = []
        self._ids = UniqueIds()
        self._body_names: set[str] = set()
        self._unnamed: list[str] = []
        self._missing: list[str] = []
        self._passed: list[str] = []
        self._queue = deque([_Body(graph, "", _Scope(None))])
        bodies: list[_Body] = []
        while self._queue:
            body = self._queue.popleft()
            self._walk(body)
            if body.name:
                bodies.append(body)
        # Only now all readers of a body's inputs are known: they may sit in bodies inside it.
        self.subgraphs.extend(_subgraph(body) for body in bodies)

    def warnings(self) -> list[str]:
        """What was named, numbered or not found, as lines for the user."""
        told = self._ids.warnings()
        for names, what in (
            (self._unnamed, "nodes have no name and were given one"),
            (self._missing, "inputs are made by no node"),
            (self._passed, "graph outputs are inputs or constants passed through"),
        ):
            if names:
                told.append(f"{len(names)} {what}: {some(names)}")
        return told

    def _walk(self, body: _Body) -> None:
        types = self._types(body.graph)
        self._declare(body)
        nodes = list(zip(self._named(body), body.graph.node, strict=True))
        for (_, op), node in nodes:
            for port, output in enumerate(node.output):
                if output:
                    body.scope.values.setdefault(output, TensorRef(op, port))
        for (name, op), node in nodes:
            self.ops.append(self._op(body, types, name, op, node))
        if not body.name:
            self.outputs.extend(self._graph_outputs(body))

    def _types(self, graph: GraphProto) -> dict[str, TypeProto]:
        known = [*graph.value_info, *graph.input, *graph.output]
        return {value.name: value.type for value in known if value.HasField("type")}

    def _declare(self, body: _Body) -> None:
        """Enter graph inputs and initializers; up to IR 3 the latter are among the former."""
        scope = body.scope
        for position, value in enumerate(body.graph.input):
            scope.values[value.name] = value.name
            if body.name:
                scope.entries[value.name] = position
        for tensor in body.graph.initializer:
            self._keep_constant(body, tensor.name, constant(tensor, tensor.name))
        for sparse in body.graph.sparse_initializer:
            name = sparse.values.name
            found = constant(sparse.values, name)
            tensor_ = Tensor(name, found.tensor.dtype, tuple(sparse.dims))
            self._keep_constant(body, name, Constant(tensor_, found.location, found.offset))

    def _keep_constant(self, body: _Body, name: str, found: Constant) -> None:
        # Two branches of an If may use one name for different constants.
        kept = f"{body.name}/{name}" if name in self.constants else name
        if kept != name:
            tensor = Tensor(kept, found.tensor.dtype, found.tensor.shape)
            found = Constant(tensor, found.location, found.offset, found.nbytes)
        self.constants[kept] = found
        body.scope.values[name] = kept
        body.scope.entries.pop(name, None)

    def _named(self, body: _Body) -> Iterator[tuple[str, str]]:
        """Name and id of every node of *body*."""
        taken = {node.name for node in body.graph.node}
        for index, node in enumerate(body.graph.node):
            if not node.op_type:
                raise ValueError(f"node {index} of graph {body.graph.name!r} has no op_type")
            name = node.name
            if not name:
                name = wanted = f"{node.op_type}_{index}"
                number = 1
                while name in taken:
                    name = f"{wanted}_{number}"
                    number += 1
                taken.add(name)
                self._unnamed.append(name)
            yield name, self._ids.take(name, body.name)

    def _op(
        self, body: _Body, types: dict[str, TypeProto], name: str, op: str, node: NodeProto
    ) -> Op:
        attrs: dict[str, AttrValue] = {}
        owns: list[str] = []
        for attr in node.attribute:
            graphs = [(attr.name, attr.g)] if attr.HasField("g") else []
            graphs += [(f"{attr.name}_{k}", graph) for k, graph in enumerate(attr.graphs)]
            for role, graph in graphs:
                owns.append(self._enter(body, graph, op, node, role))
            value = attr_value(attr)
            if value is not None:
                attrs[attr.name] = value
        if node.domain not in ("", "ai.onnx"):
            attrs.setdefault("domain", node.domain)
        return Op(
            id=op,
            name=name,
            type=node.op_type,
            inputs=tuple(self._input(body.scope, op, tensor) for tensor in node.input),
            outputs=tuple(tensor_of(output, types.get(output)) for output in node.output),
            attrs=attrs,
            subgraph=body.name,
            owns=tuple(owns),
            sequence=len(self.ops),
        )

    def _enter(self, body: _Body, graph: GraphProto, op: str, node: NodeProto, role: str) -> str:
        name = wanted = f"{op}/{role}"
        number = 2
        while name in self._body_names:
            name = f"{wanted}#{number}"
            number += 1
        self._body_names.add(name)
        scope = _Scope(body.scope)
        self._queue.append(_Body(graph, name, scope, op, role, node))
        return name

    def _input(self, scope: _Scope, op: str, tensor: str) -> InputRef | None:
        if not tensor:
            return None
        value = scope.find(tensor)
        if isinstance(value, TensorRef):
            return InputRef(tensor, value)
        if value is None:
            self._missing.append(f"{tensor} of {op}")
        self._note_reader(scope, tensor, op)
        return InputRef(tensor if value is None else value)

    def _note_reader(self, scope: _Scope, tensor: str, op: str) -> None:
        around: _Scope | None = scope
        while around is not None and tensor not in around.values:
            around = around.around
        if around is not None and tensor in around.entries:
            readers = around.readers.setdefault(tensor, [])
            if op not in readers[-1:]:
                readers.append(op)

    def _graph_outputs(self, body: _Body) -> Iterator[TensorRef]:
        for output in body.graph.output:
            value = body.scope.values.get(output.name)
            if isinstance(value, TensorRef):
                yield value
            else:
                self._passed.append(output.name)


def _subgraph(body: _Body) -> Subgraph:
    inputs = [
        (position, reader)
        for name, entry in body.scope.entries.items()
        if (position := _owner_input(body, entry)) is not None
        for reader in body.scope.readers.get(name, ())
    ]
    return Subgraph(body.name, body.owner, body.role, tuple(inputs), tuple(_fed_outputs(body)))


def _owner_input(body: _Body, entry: int) -> int | None:
    """The owner's input that arrives at input *entry* of a body; None if none does."""
    if body.node is None or body.node.op_type not in ("Loop", "Scan", "SequenceMap"):
        return None
    if body.node.op_type == "Loop":
        return entry if entry > 0 else None  # input 0 counts the rounds
    # Scan of opset 8 has the sequence lengths in front.
    shift = body.node.op_type == "Scan" and len(body.node.input) == len(body.graph.input) + 1
    return entry + int(shift)


def _fed_outputs(body: _Body) -> Iterator[tuple[int, TensorRef]]:
    """The owner's output and the tensor that feeds it, for each output of a body."""
    kind = "" if body.node is None else body.node.op_type
    if kind not in ("If", "Loop", "Scan", "SequenceMap"):
        return
    # A loop's first output only says whether to go on.
    first = 1 if kind == "Loop" else 0
    for port, output in enumerate(body.graph.output[first:]):
        value = body.scope.find(output.name)
        if isinstance(value, TensorRef):
            yield port, value
