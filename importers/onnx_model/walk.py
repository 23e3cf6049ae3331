"""Walk an ONNX graph and the bodies inside it into ops, constants and sub-graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from graphstore.model import AttrValue, Constant, InputRef, Op, Subgraph, Tensor, TensorRef
from importers.kept import told_of
from importers.names import Bodies, UniqueIds
from importers.nesting import BodyInput, with_inner_readers
from importers.onnx_model.reading import Functions, function_key
from importers.onnx_model.values import attr_value, constant, tensor_of

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto

_Value: TypeAlias = "TensorRef | str"
"""Who makes a tensor: an op's output, or the name of a graph input or constant."""


@dataclass(slots=True)
class _Scope:
    """The tensor names one graph sees: its own and those of the graphs around it."""

    around: _Scope | None
    values: dict[str, _Value] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    readings: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def holder(self, name: str) -> _Scope | None:
        """The innermost graph that has *name*; None if nobody makes it."""
        scope: _Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.around
        return scope


@dataclass(slots=True)
class _Body:
    """A graph to walk: its name (empty: the root), its owner and what it sees.

    ``attrs`` are what the caller of the function around it gives, ``chain`` the functions it
    is in.
    """

    content: GraphProto | FunctionProto
    scope: _Scope
    name: str = ""
    is_function: bool = False
    owner: str = ""
    role: str = ""
    node: NodeProto | None = None
    attrs: dict[str, AttributeProto] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[str]:
        return [_name(value) for value in self.content.input]

    @property
    def outputs(self) -> list[str]:
        return [_name(value) for value in self.content.output]

    @property
    def types(self) -> dict[str, TypeProto]:
        infos: list[Any] = [*self.content.value_info]
        if not self.is_function:
            infos += [*self.content.input, *self.content.output]
        return {value.name: value.type for value in infos if value.HasField("type")}


def _name(value: Any) -> str:
    """A tensor's name: functions list names only."""
    return value if isinstance(value, str) else str(value.name)


class GraphWalk:
    """The ops of *model* in file order, then those of its bodies, level by level.

    Bodies are the graphs in attributes and the functions of the model, one for each call.
    """

    def __init__(self, model: ModelProto) -> None:
        self._functions = Functions(model)
        self.ops: list[Op] = []
        self.constants: dict[str, Constant] = {}
        self.outputs: list[TensorRef] = []
        self._ids = UniqueIds()
        self._unnamed: list[str] = []
        self._missing: list[str] = []
        self._twice: list[str] = []
        self._passed: list[str] = []
        self._bodies = Bodies(_Body(model.graph, _Scope(None)))
        bodies: list[_Body] = []
        for body in self._bodies:
            self._walk(body)
            if body.name:
                bodies.append(body)
        # Only now all readers of a body's inputs are known: they may sit in bodies inside it.
        readings = {body.name: list(_from_owner(body)) for body in bodies}
        subgraphs = [
            Subgraph(body.name, body.owner, body.role, outputs=tuple(_fed_outputs(body)))
            for body in bodies
        ]
        self.subgraphs = with_inner_readers(subgraphs, readings)

    def warnings(self) -> list[str]:
        """What was named, numbered or not found, as lines for the user."""
        passed = "graph {output is an input or constant|outputs are inputs or constants}"
        return [
            *self._ids.warnings(),
            *told_of(self._unnamed, "{node has|nodes have} no name and {was|were} given one"),
            *told_of(self._missing, "{input is|inputs are} made by no node"),
            *told_of(self._twice, "{tensor is|tensors are} made by a second node, too"),
            *told_of(self._passed, f"{passed} passed through"),
            *self._functions.warnings(),
        ]

    def _walk(self, body: _Body) -> None:
        types = body.types
        self._declare(body)
        nodes = list(zip(self._named(body), body.content.node, strict=True))
        for (_, op), node in nodes:
            for port, output in enumerate(node.output):
                ref = TensorRef(op, port)
                if output and body.scope.values.setdefault(output, ref) != ref:
                    self._twice.append(output)
        for (name, op), node in nodes:
            self.ops.append(self._op(body, types, name, op, node))
        if not body.name:
            self.outputs.extend(self._graph_outputs(body))

    def _declare(self, body: _Body) -> None:
        """Enter graph inputs and initializers; up to IR 3 the latter are among the former."""
        scope = body.scope
        for position, name in enumerate(body.inputs):
            # Names in a function are its own: elsewhere they may mean other tensors.
            scope.values[name] = f"{body.name}/{name}" if body.is_function else name
            if body.name:
                scope.entries[name] = position
        graph: Any = None if body.is_function else body.content
        for tensor in graph.initializer if graph else ():
            self._keep_constant(body, tensor.name, constant(tensor, tensor.name))
        for sparse in graph.sparse_initializer if graph else ():
            name = sparse.values.name
            dense = constant(sparse.values, name)
            tensor_ = Tensor(name, dense.tensor.dtype, tuple(sparse.dims))
            self._keep_constant(body, name, Constant(tensor_, dense.location, dense.offset))

    def _keep_constant(self, body: _Body, name: str, value: Constant) -> None:
        # Two branches of an If may use one name for different constants.
        unique = f"{body.name}/{name}" if name in self.constants else name
        if unique != name:
            tensor = Tensor(unique, value.tensor.dtype, value.tensor.shape)
            value = Constant(tensor, value.location, value.offset, value.nbytes)
        self.constants[unique] = value
        body.scope.values[name] = unique
        body.scope.entries.pop(name, None)

    def _named(self, body: _Body) -> Iterator[tuple[str, str]]:
        """Name and id of every node of *body*."""
        names = {node.name for node in body.content.node}
        for index, node in enumerate(body.content.node):
            if not node.op_type:
                where = body.name or "the graph"
                raise ValueError(f"node {index} of {where} has no op_type")
            name = node.name
            if not name:
                name = wanted = f"{node.op_type}_{index}"
                number = 1
                while name in names:
                    name = f"{wanted}_{number}"
                    number += 1
                names.add(name)
                self._unnamed.append(name)
            yield name, self._ids.take(name, body.name)

    def _op(
        self, body: _Body, types: dict[str, TypeProto], name: str, op: str, node: NodeProto
    ) -> Op:
        attrs: dict[str, AttrValue] = {}
        owns: list[str] = []
        attributes = [_resolved_attribute(attr, body.attrs) for attr in node.attribute]
        for attr in attributes:
            graphs = [(attr.name, attr.g)] if attr.HasField("g") else []
            graphs += [(f"{attr.name}_{k}", graph) for k, graph in enumerate(attr.graphs)]
            for role, graph in graphs:
                inner = _Body(graph, _Scope(body.scope), owner=op, role=role, node=node)
                inner.attrs, inner.chain = body.attrs, body.chain
                owns.append(self._enter(inner))
            value = attr_value(attr)
            if value is not None:
                attrs[attr.name] = value
        if node.domain not in ("", "ai.onnx"):
            attrs.setdefault("domain", node.domain)
        key = function_key(node)
        function = self._functions.enter(key, body.chain, op)
        if function is not None:
            inner = _Body(function, _Scope(None), "", True, op, "function", node)
            inner.attrs = {attr.name: attr for attr in (*function.attribute_proto, *attributes)}
            inner.chain = (*body.chain, key)
            owns.append(self._enter(inner))
        return Op(
            id=op,
            name=name,
            type=node.op_type,
            inputs=tuple(
                self._input(body.scope, op, position, tensor)
                for position, tensor in enumerate(node.input)
            ),
            outputs=tuple(tensor_of(output, types.get(output)) for output in node.output),
            attrs=attrs,
            subgraph=body.name,
            owns=tuple(owns),
            sequence=len(self.ops),
        )

    def _enter(self, body: _Body) -> str:
        """Name *body* and have it walked later."""
        return self._bodies.enter(body.owner, body.role, lambda name: replace(body, name=name))

    def _input(self, scope: _Scope, op: str, position: int, tensor: str) -> InputRef | None:
        if not tensor:
            return None
        holder = scope.holder(tensor)
        if holder is None:
            self._missing.append(f"{tensor} of {op}")
            return InputRef(tensor)
        value = holder.values[tensor]
        if isinstance(value, TensorRef):
            return InputRef(tensor, value)
        if tensor in holder.entries:
            holder.readings.setdefault(tensor, []).append((op, position))
        return InputRef(value)

    def _graph_outputs(self, body: _Body) -> Iterator[TensorRef]:
        for output in body.outputs:
            value = body.scope.values.get(output)
            if isinstance(value, TensorRef):
                yield value
            else:
                self._passed.append(output)


def _from_owner(body: _Body) -> Iterator[BodyInput]:
    """Who reads what enters a body, by the inputs of its owner."""
    for name, entry in body.scope.entries.items():
        arrives = _owner_input(body, entry)
        if arrives is not None:
            for op, position in body.scope.readings.get(name, ()):
                yield BodyInput(arrives, op, position)


def _owner_input(body: _Body, entry: int) -> int | None:
    """The owner's input that arrives at input *entry* of a body; None if none does."""
    if body.is_function:
        return entry
    if body.node is None or body.node.op_type not in ("Loop", "Scan", "SequenceMap"):
        return None
    if body.node.op_type == "Loop":
        return entry if entry > 0 else None  # input 0 counts the rounds
    # Scan of opset 8 has the sequence lengths in front.
    shift = body.node.op_type == "Scan" and len(body.node.input) == len(body.inputs) + 1
    return entry + int(shift)


def _fed_outputs(body: _Body) -> Iterator[tuple[int, TensorRef]]:
    """The owner's output and the tensor that feeds it, for each output of a body."""
    kind = "" if body.node is None else body.node.op_type
    if body.is_function:
        kind = "function"
    elif kind not in ("If", "Loop", "Scan", "SequenceMap"):
        return
    # A loop's first output only says whether to go on.
    first = 1 if kind == "Loop" else 0
    for port, output in enumerate(body.outputs[first:]):
        holder = body.scope.holder(output)
        value = holder.values[output] if holder else None
        if isinstance(value, TensorRef):
            yield port, value


def _resolved_attribute(attr: AttributeProto, attrs: dict[str, AttributeProto]) -> AttributeProto:
    """*attr*, or what the caller of the function around it gives for what it refers to."""
    attribute = attrs.get(attr.ref_attr_name) if attr.ref_attr_name else None
    if attribute is None:
        return attr
    copied = type(attr)()
    copied.CopyFrom(attribute)
    copied.name = attr.name
    return copied
