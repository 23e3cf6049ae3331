"""Turn a TensorFlow GraphDef into ops, inputs and outputs of a model graph.

Functions are read where they are called: every call gets a body of its own, so that each op of
it can have a value, as in the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from graphstore.model import AttrValue, InputRef, Op, Shape, Subgraph, Tensor, TensorRef
from importers.kept import MAX_PORT, split_reference, told_of
from importers.names import Bodies, Expansion, UniqueIds
from importers.nesting import BodyInput, with_inner_readers
from importers.proto.messages import tf_graph_pb2 as pb
from importers.tensorflow.functions import (
    Attrs,
    CallSite,
    Library,
    OutputArg,
    filled_in,
    known,
    output_port,
    output_types,
)
from importers.tensorflow.types import attr_value, dtype_of, shape_of

ENTER = frozenset({"Enter", "RefEnter"})
_EXIT = frozenset({"Exit", "RefExit"})
_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"})
_NO_END = frozenset({"Const", "NoOp", "Assert", *_PLACEHOLDERS})


@dataclass(slots=True)
class _Body:
    """Nodes to read: of the root graph (the name is empty) or of one call of a function."""

    nodes: Sequence[pb.NodeDef]
    name: str = ""
    owner: str = ""
    call: CallSite | None = None
    function: pb.FunctionDef | None = None
    chain: tuple[str, ...] = ()
    args: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    by_name: dict[str, pb.NodeDef] = field(default_factory=dict)
    readings: list[BodyInput] = field(default_factory=list)

    @property
    def attrs(self) -> Attrs:
        return {} if self.call is None else self.call.attrs


class GraphNodes:
    """The ops of *graph* in file order, then those of the functions they call.

    *declared* are op definitions from the same file; *contexts* the control-flow context a node
    is in, where the file keeps them.
    """

    def __init__(
        self,
        graph: pb.GraphDef,
        declared: Mapping[str, tuple[OutputArg, ...]],
        contexts: Mapping[str, str] | None = None,
    ) -> None:
        self._library = Library(graph.library.function)
        self._declared = {**declared, **self._library.outputs}
        self._contexts = contexts or {}
        self._unique = UniqueIds()
        self._missing: list[str] = []
        self._expansion = Expansion()
        self._ports: dict[str, int] = {}
        self._ops: list[Op] = []
        self.definitions: dict[str, tuple[pb.NodeDef, Attrs]] = {}
        """By op id what the file says of it, and the attributes its body was called with."""
        self._root = _Body(graph.node)
        self._bodies = Bodies(self._root)
        bodies: list[Subgraph] = []
        readings: dict[str, list[BodyInput]] = {}
        for body in self._bodies:
            self._read(body)
            if body.name:
                bodies.append(self._subgraph(body))
                readings[body.name] = _from_owner(body)
        self.subgraphs = with_inner_readers(bodies, readings)
        self.ops = tuple(self._ops)

    def inputs(self) -> tuple[Tensor, ...]:
        """What is fed: the outputs of the placeholders."""
        fed = (op for op in self.ops if op.type in _PLACEHOLDERS and not op.subgraph)
        return tuple(tensor for op in fed for tensor in op.outputs)

    def ends(self) -> tuple[TensorRef, ...]:
        """The tensors nobody reads, for a graph that names no outputs of its own."""
        read = {ref.producer.op for op in self.ops for ref in op.inputs if ref and ref.producer}
        return tuple(
            TensorRef(op.id, port)
            for op in self.ops
            if op.id not in read and op.type not in _NO_END and not op.subgraph
            for port in range(len(op.outputs))
        )

    def reference(self, entry: str) -> TensorRef | None:
        """The tensor that *entry* (``name`` or ``name:port``) names; None if there is none."""
        name, port = split_reference(entry)
        op = self._root.ids.get(name)
        return None if op is None else TensorRef(op, port)

    def warnings(self) -> list[str]:
        """What was numbered, not found or not expanded, as lines for the user."""
        uncalled = "library {function is|functions are} called by nothing and {was|were} left out"
        return [
            *self._unique.warnings(),
            *told_of(self._missing, "{input names|inputs name} a node that is not there"),
            *self._expansion.warnings(),
            *told_of(self._library.uncalled(), uncalled),
        ]

    def _read(self, body: _Body) -> None:
        nodes = body.nodes
        ids = [self._unique.take(node.name, body.name) for node in nodes]
        for op, node in zip(ids, nodes, strict=True):
            body.ids.setdefault(node.name, op)
            body.by_name.setdefault(node.name, node)
        linked = [self._linked(body, op, node) for op, node in zip(ids, nodes, strict=True)]
        loops = _loops(ids, nodes, linked)
        for op, node, links in zip(ids, nodes, linked, strict=True):
            self._ops.append(self._op(body, op, node, links, loops.get(op, "")))

    def _linked(
        self, body: _Body, op: str, node: pb.NodeDef
    ) -> tuple[list[InputRef | None], list[str]]:
        inputs: list[InputRef | None] = []
        controls: list[str] = []
        for entry in node.input:
            if entry.startswith("^"):
                producer = body.ids.get(entry[1:])
                if producer is not None:
                    controls.append(producer)
                elif entry[1:] not in body.args:
                    self._missing.append(f"{entry} of {op}")
                continue
            ref = self._resolved(body, entry)
            if ref.producer is not None:
                self._note_port(ref.producer)
            elif (arg := _arg(body, entry)) is not None:
                body.readings.append(BodyInput(arg, op, len(inputs)))
            else:
                self._missing.append(f"{entry} of {op}")
            inputs.append(ref)
        return inputs, controls

    def _resolved(self, body: _Body, entry: str) -> InputRef:
        """What an input names: ``node:port`` in a graph, ``node:output:index`` in a function."""
        if body.function is None:
            name, port = split_reference(entry)
            producer = body.ids.get(name)
            ref = None if producer is None else TensorRef(producer, port)
            return InputRef(f"{name}:{port}", ref)
        if _arg(body, entry) is not None:
            return InputRef(f"{body.name}/{entry}")
        name, _, rest = entry.partition(":")
        output, _, index = rest.rpartition(":")
        node = body.by_name.get(name)
        if node is None:
            return InputRef(entry)
        number = int(index) if index.isdecimal() and len(index) < 7 else 0
        port_found = output_port(node, self._args(node), output or index, number)
        return InputRef(entry, TensorRef(body.ids[name], port_found or 0))

    def _note_port(self, ref: TensorRef) -> None:
        self._ports[ref.op] = max(ref.port, self._ports.get(ref.op, -1))

    def _op(
        self,
        body: _Body,
        op: str,
        node: pb.NodeDef,
        links: tuple[Sequence[InputRef | None], Sequence[str]],
        loop: str,
    ) -> Op:
        self.definitions[op] = node, body.attrs
        attrs: dict[str, AttrValue] = {}
        for name in sorted(node.attr):
            value = attr_value(filled_in(node.attr[name], body.attrs))
            if value is not None:
                attrs[name] = value
        if node.device:
            attrs.setdefault("device", node.device)
        if loop:
            attrs.setdefault("frame", loop)
        if node.name in self._contexts and not body.name:
            attrs.setdefault("control_context", self._contexts[node.name])
        return Op(
            id=op,
            name=node.name,
            type=node.op,
            inputs=tuple(links[0]),
            control_inputs=tuple(links[1]),
            outputs=tuple(self._outputs(body, op, node)),
            attrs=attrs,
            subgraph=body.name,
            owns=tuple(self._entered(body, op, node)),
            sequence=len(self._ops),
        )

    def _entered(self, body: _Body, op: str, node: pb.NodeDef) -> Iterable[str]:
        """The names of the bodies for what *node* calls, which are read later."""
        entered: list[str] = []
        for call in self._library.calls(node):
            function = self._library.find(call.function)
            if function is None or not self._expansion.enters(
                call.function, len(function.node_def), body.chain, op
            ):
                continue
            args = {arg.name: at for at, arg in enumerate(function.signature.input_arg)}
            chain = (*body.chain, call.function)
            inner = partial(
                _Body,
                function.node_def,
                owner=op,
                call=call,
                function=function,
                chain=chain,
                args=args,
            )
            entered.append(self._bodies.enter(op, call.role, inner))
        return entered

    def _subgraph(self, body: _Body) -> Subgraph:
        call, function = body.call, body.function
        outputs: list[tuple[int, TensorRef]] = []
        if call is not None and call.feeds and function is not None:
            for port, arg in enumerate(function.signature.output_arg):
                ref = self._resolved(body, function.ret.get(arg.name, "")).producer
                if ref is not None:
                    outputs.append((port, ref))
        role = "" if call is None else call.role
        return Subgraph(body.name, body.owner, role, outputs=tuple(outputs))

    def _args(self, node: pb.NodeDef) -> tuple[OutputArg, ...] | None:
        args = self._declared.get(node.op)
        return known().get(node.op) if args is None else args

    def _outputs(self, body: _Body, op: str, node: pb.NodeDef) -> list[Tensor]:
        types = output_types(node, self._args(node), MAX_PORT, body.attrs)
        types += [0] * (self._ports.get(op, -1) + 1 - len(types))
        shapes = _shapes(node)
        return [
            Tensor(
                f"{op if body.name else node.name}:{port}",
                dtype_of(number),
                shapes[port] if port < len(shapes) else None,
            )
            for port, number in enumerate(types)
        ]


def _from_owner(body: _Body) -> list[BodyInput]:
    """The readings of a body's arguments by the inputs of its owner they come from."""
    call = body.call
    if call is None or call.first is None:
        return []
    shift = call.first - call.skip
    return [
        BodyInput(reading.entry + shift, reading.op, reading.position)
        for reading in body.readings
        if reading.entry >= call.skip
    ]


def _arg(body: _Body, entry: str) -> int | None:
    """Which argument of a function *entry* is: ``arg``, or ``arg:0`` as some writers have it."""
    return body.args.get(entry, body.args.get(entry.removesuffix(":0")))


def _loops(
    ids: Sequence[str],
    nodes: Sequence[pb.NodeDef],
    linked: Sequence[tuple[Sequence[InputRef | None], Sequence[str]]],
) -> dict[str, str]:
    """The loop each op runs in, by id, in graphs with loops of the old kind."""
    if not any(node.op in ENTER for node in nodes):
        return {}
    types = {op: node.op for op, node in zip(ids, nodes, strict=True)}
    inputs = {
        op: [*(ref.producer.op for ref in data if ref and ref.producer), *controls]
        for op, (data, controls) in zip(ids, linked, strict=True)
    }
    names = {
        op: node.attr["frame_name"].s.decode("utf-8", "backslashreplace")
        for op, node in zip(ids, nodes, strict=True)
        if node.op in ENTER and "frame_name" in node.attr
    }
    return frames(types, inputs, names)


def frames(
    types: Mapping[str, str], inputs: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> dict[str, str]:
    """The loop each op runs in, ``outer/inner``, for the ops that run in one.

    Loops of the old kind run in frames, which Enter opens and Exit leaves: "Implementation of
    Control Flow in TensorFlow" (2017).

    *types* and *inputs* (data and control) are by op, *names* the frame name of each Enter.
    """
    readers: dict[str, list[str]] = {}
    for op, producers in inputs.items():
        for producer in producers:
            readers.setdefault(producer, []).append(op)
    # What an op gives out lies in its own frame, but Exit gives to the frame around.
    frames_of: dict[str, tuple[str, ...]] = {}
    frames_by_op: dict[str, str] = {}
    waiting: deque[tuple[str, tuple[str, ...]]] = deque()
    waiting.extend((op, ()) for op in types if not inputs.get(op))
    while waiting:
        op, frame = waiting.popleft()
        if op in frames_of:
            continue
        if types[op] in ENTER:
            frame = (*frame, names.get(op, ""))
        if frame:
            frames_by_op[op] = "/".join(frame)
        frames_of[op] = frame[:-1] if types[op] in _EXIT else frame
        waiting.extend((reader, frames_of[op]) for reader in readers.get(op, ()))
    return frames_by_op


def _shapes(node: pb.NodeDef) -> list[Shape | None]:
    """Shapes by output, from what graphs carry: recorded ones, variables, constants."""
    attrs = node.attr
    for name in ("_output_shapes", "output_shapes"):
        if name in attrs and attrs[name].list.shape:
            return [shape_of(shape) for shape in attrs[name].list.shape]
    if node.op == "Const" and "value" in attrs:
        return [shape_of(attrs["value"].tensor.tensor_shape)]
    if "shape" in attrs and attrs["shape"].HasField("shape") and node.op in _SHAPED:
        shape = shape_of(attrs["shape"].shape)
        # Old writers leave a placeholder's shape empty where nothing is known.
        return [None if shape == () and node.op == "Placeholder" else shape]
    return []


_SHAPED = _PLACEHOLDERS | {"Variable", "VariableV2", "TemporaryVariable", "ImmutableConst"}
