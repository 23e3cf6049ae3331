"""Turn a TensorFlow GraphDef into ops, inputs and outputs of a model graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphstore.model import AttrValue, InputRef, Op, Shape, Tensor, TensorRef
from importers.kept import MAX_PORT, some
from importers.names import UniqueIds
from importers.protos import tf_graph_pb2 as pb
from importers.tensorflow.outputs import OutputArg, known, output_types
from importers.tensorflow.types import attr_value, dtype_of, shape_of

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg"})
_NO_END = frozenset({"Const", "NoOp", "Assert", *_PLACEHOLDERS})


class GraphNodes:
    """The ops of *graph* in file order. *declared* are op definitions from the same file."""

    def __init__(self, graph: pb.GraphDef, declared: Mapping[str, tuple[OutputArg, ...]]) -> None:
        self._declared = declared
        self._unique = UniqueIds()
        self._missing: list[str] = []
        self._ids: dict[str, str] = {}
        self._ports: dict[str, int] = {}
        ids = [self._unique.take(node.name) for node in graph.node]
        for op, node in zip(ids, graph.node, strict=True):
            self._ids.setdefault(node.name, op)
        linked = [self._linked(op, node) for op, node in zip(ids, graph.node, strict=True)]
        self.ops = tuple(
            self._op(at, op, node, *linked[at])
            for at, (op, node) in enumerate(zip(ids, graph.node, strict=True))
        )

    def inputs(self) -> tuple[Tensor, ...]:
        """What is fed: the outputs of the placeholders."""
        return tuple(tensor for op in self.ops if op.type in _PLACEHOLDERS for tensor in op.outputs)

    def ends(self) -> tuple[TensorRef, ...]:
        """The tensors nobody reads, for a graph that names no outputs of its own."""
        read = {ref.producer.op for op in self.ops for ref in op.inputs if ref and ref.producer}
        return tuple(
            TensorRef(op.id, port)
            for op in self.ops
            if op.id not in read and op.type not in _NO_END
            for port in range(len(op.outputs))
        )

    def reference(self, entry: str) -> TensorRef | None:
        """The tensor that *entry* (``name`` or ``name:port``) names; None if there is none."""
        name, port = split_reference(entry)
        op = self._ids.get(name)
        return None if op is None else TensorRef(op, port)

    def warnings(self) -> list[str]:
        """What was numbered or not found, as lines for the user."""
        told = self._unique.warnings()
        if self._missing:
            count = len(self._missing)
            told.append(f"{count} inputs name a node that is not there: {some(self._missing)}")
        return told

    def _linked(self, op: str, node: pb.NodeDef) -> tuple[list[InputRef | None], list[str]]:
        inputs: list[InputRef | None] = []
        controls: list[str] = []
        for entry in node.input:
            name, port = split_reference(entry.removeprefix("^"))
            producer = self._ids.get(name)
            if producer is None:
                self._missing.append(f"{entry} of {op}")
            if entry.startswith("^"):
                if producer is not None:
                    controls.append(producer)
                continue
            tensor = f"{name}:{port}"
            inputs.append(InputRef(tensor, TensorRef(producer, port) if producer else None))
            if producer is not None and self._ports.get(producer, -1) < port <= MAX_PORT:
                self._ports[producer] = port
        return inputs, controls

    def _op(
        self,
        at: int,
        op: str,
        node: pb.NodeDef,
        inputs: Sequence[InputRef | None],
        controls: Sequence[str],
    ) -> Op:
        attrs: dict[str, AttrValue] = {}
        for name in sorted(node.attr):
            value = attr_value(node.attr[name])
            if value is not None:
                attrs[name] = value
        if node.device:
            attrs.setdefault("device", node.device)
        return Op(
            id=op,
            name=node.name,
            type=node.op,
            inputs=tuple(inputs),
            control_inputs=tuple(controls),
            outputs=tuple(self._outputs(op, node)),
            attrs=attrs,
            sequence=at,
        )

    def _outputs(self, op: str, node: pb.NodeDef) -> list[Tensor]:
        args = self._declared.get(node.op)
        types = output_types(node, known().get(node.op) if args is None else args, MAX_PORT)
        types += [0] * (self._ports.get(op, -1) + 1 - len(types))
        shapes = _shapes(node)
        return [
            Tensor(
                f"{node.name}:{port}",
                dtype_of(number),
                shapes[port] if port < len(shapes) else None,
            )
            for port, number in enumerate(types)
        ]


def split_reference(entry: str) -> tuple[str, int]:
    """Name and output port of ``name`` or ``name:port``."""
    name, colon, port = entry.rpartition(":")
    return (name, int(port)) if colon and port.isdecimal() else (entry, 0)


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
