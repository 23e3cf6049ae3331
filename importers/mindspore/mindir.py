"""Read MindIR, the models MindSpore exports: ``.mindir``.

Field numbers are those of mind_ir.proto; weights and encrypted content stay in the file.
"""

from __future__ import annotations

from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType, ModelGraph
from importers.kept import kept_list, kept_text
from importers.mindspore.assembly import AnfNode, FunctionBody, Value, assemble
from importers.proto.schema_reader import SchemaReader, schema
from importers.proto.values import BinarySpan, Fields, message, number, text, whole
from importers.proto.values import Value as Read
from importers.source import mapped, sha256

_SCHEMA = schema("""
    ModelProto: 1=ir_version/text 2=producer_name/text 3=producer_version/text
        5=model_version/text 7=graph/binary 8=functions/binary 12=primitives/Primitive
    GraphProto: 1=node/Node 2=name/text 3=parameter/Tensor 5=input/ValueInfo 6=output/ValueInfo
        8=attribute/Attribute
    Node: 1=input/text 2=output/text 3=name/text 4=op_type/text 5=attribute/Attribute
        7=domain/text
    Primitive: 1=name/text 2=op_type/text 3=attribute/Attribute
    ValueInfo: 1=name/text 2=tensor/Tensor
    Attribute: 1=name/text 2=f/float 3=i/integer 4=d/double 5=s/text 6=t/Tensor 8=floats/float
        9=doubles/double 10=ints/integer 11=strings/text 12=tensors/Tensor 16=type/integer
        17=values/Attribute
    Tensor: 1=dims/integer 2=data_type/integer 7=name/text
""")
_DTYPES: dict[int, DType] = {
    number: DType(name)
    for number, name in enumerate(
        "- float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 "
        "complex64 complex128 bfloat16 float64".split()
    )
    if name != "-"
}
"""Element types as mind_ir.proto numbers them."""

_REFERENCE = "REF::"
_CONSTANT = "Constant"
_CALL = "call"
_SHAPE = "shape"
"""The attribute of a node with the types and shapes of its outputs."""

_KIND_BOOL, _KINDS_LISTS = 9, (20, 21, 22)


def read_mindir(path: Path) -> ModelGraph:
    """The graph in *path*, other functions of the model as bodies.

    Raises:
        ImportFormatError: damaged (with the byte), or without a graph.
    """
    with mapped(path) as buffer:
        reader = SchemaReader(buffer, path, _SCHEMA, repeated="Attribute")
        spans: list[BinarySpan] = []
        attrs: dict[str, AttrValue] = {}
        primitives: dict[str, tuple[str, dict[str, AttrValue]]] = {}
        for name, value, at in reader.top("ModelProto", BinarySpan(0, len(buffer))):
            with reader.told(at):
                if isinstance(value, BinarySpan):
                    spans.insert(0 if name == b"graph" else len(spans), value)
                elif name == b"primitives":
                    single = _single(message(value))
                    primitives[text(single.get(b"name", ""))] = (
                        text(single.get(b"op_type", "")),
                        _attrs(message(value)),
                    )
                else:
                    attrs[name.decode()] = kept_text(text(value))
        if not spans:
            raise ImportFormatError(path, "the file holds no graph", offset=0)
        bodies = [_Body(reader, primitives).read(span) for span in spans]
        if not bodies[0].nodes:
            raise ImportFormatError(path, "the graph has no nodes", offset=spans[0].offset)
        _tie(bodies)
        return assemble(bodies, path, sha256(buffer), form="mindir", attrs=attrs)


def _tie(bodies: list[FunctionBody]) -> None:
    """Tell calls of functions from values; constants are written in one function for all."""
    names = {body.name for body in bodies[1:]}
    literals = {key: value for body in bodies for key, value in body.literals.items()}
    for body in bodies:
        body.literals = literals
        keys = {node.key for node in body.nodes}
        for node in body.nodes:
            if node.type in keys:  # a function that another node made
                node.inputs.insert(0, node.type)
            called = (node.type, *node.inputs)
            node.calls = tuple(key for key in called if key in names)
            node.inputs = [key for key in node.inputs if key not in names]
            if node.type in keys or node.type in names:
                node.type = _CALL


class _Body:
    def __init__(
        self, reader: SchemaReader, primitives: dict[str, tuple[str, dict[str, AttrValue]]]
    ) -> None:
        self._reader = reader
        self._primitives = primitives
        self._body = FunctionBody()

    def read(self, span: BinarySpan) -> FunctionBody:
        """The graph at *span*."""
        for name, value, at in self._reader.top("GraphProto", span):
            with self._reader.told(at):
                self._take(name, value)
        return self._shortened()

    def _take(self, name: bytes, value: Read) -> None:
        body = self._body
        if name == b"name":
            body.name = text(value)
        elif name == b"node":
            self._node(message(value))
        elif name == b"attribute":
            body.attrs.update(_attrs([(name, value)]))
        elif name == b"parameter":
            single = _single(message(value))
            body.weights[text(single.get(b"name", ""))] = _tensor(message(value))
        else:
            single = _single(message(value))
            tensors = [
                _tensor(message(element)) for key, element in message(value) if key == b"tensor"
            ]
            if name == b"input":
                body.inputs[text(single.get(b"name", ""))] = tensors[0] if tensors else Value()
            else:
                body.outputs.append(text(single.get(b"name", "")))

    def _node(self, fields: Fields) -> None:
        single = _single(fields)
        kind = text(single.get(b"op_type", ""))
        key = text(single.get(b"name", ""))
        attrs = _attrs(fields)
        if kind == _CONSTANT and not single.get(b"domain"):
            self._body.literals[key] = attrs.get("value", "nothing")
            return
        if kind.startswith(_REFERENCE):
            kind, primitive_attrs = self._primitives.get(
                kind.removeprefix(_REFERENCE), (kind.removeprefix(_REFERENCE), {})
            )
            attrs = {**primitive_attrs, **attrs}
        attrs.pop(_SHAPE, None)
        self._body.nodes.append(
            AnfNode(
                key,
                text(single.get(b"domain", "")).removeprefix("0") or key.rpartition(":")[0] or key,
                kind,
                [text(value) for name, value in fields if name == b"input"],
                _outputs(fields),
                attrs,
            )
        )

    def _shortened(self) -> FunctionBody:
        """The body with its values called as the user does: without the function's name."""
        body, prefix = self._body, f"{self._body.name}:"
        body.inputs = {key.removeprefix(prefix): value for key, value in body.inputs.items()}
        body.weights = {key.removeprefix(prefix): value for key, value in body.weights.items()}
        body.outputs = [key.removeprefix(prefix) for key in body.outputs]
        for node in body.nodes:
            node.key = node.key.removeprefix(prefix)
            node.type = node.type.removeprefix(prefix)
            node.inputs = [key.removeprefix(prefix) for key in node.inputs]
        return body


def _single(fields: Fields) -> dict[bytes, Read]:
    return dict(fields)


def _attrs(fields: Fields) -> dict[str, AttrValue]:
    attrs: dict[str, AttrValue] = {}
    for name, value in fields:
        if name == b"attribute":
            entry = message(value)
            attrs[text(_single(entry).get(b"name", ""))] = _attr(entry)
    return attrs


def _attr(fields: Fields) -> AttrValue:
    """An attribute's value as kept; tensors in words."""
    values: list[AttrValue] = []
    kind = 0
    for name, value in fields:
        if name == b"type":
            kind = whole(value)
        elif name in (b"t", b"tensors"):
            tensor = _tensor(message(value))
            values.append(f"tensor {tensor.dtype.value if tensor.dtype else 'of unknown type'}")
        elif name == b"values":
            values.append(_attr(message(value)))
        elif name in (b"s", b"strings"):
            values.append(kept_text(text(value)))
        elif name in (b"f", b"d", b"floats", b"doubles"):
            values.append(number(value))
        elif name in (b"i", b"ints"):
            values.append(whole(value))
    if kind in _KINDS_LISTS or len(values) > 1:
        return kept_list(values)
    if not values:
        return "nothing"
    return bool(values[0]) if kind == _KIND_BOOL else values[0]


def _outputs(fields: Fields) -> list[Value]:
    """What the attribute ``shape`` says of a node: one tensor, or a tuple of them."""
    for name, value in fields:
        if name != b"attribute":
            continue
        entry = message(value)
        if _single(entry).get(b"name") in (_SHAPE, _SHAPE.encode()):
            return _tensors(entry) or [Value()]
    return [Value()]


def _tensors(entry: Fields) -> list[Value]:
    tensors: list[Value] = []
    for name, value in entry:
        if name in (b"t", b"tensors"):
            tensors.append(_tensor(message(value)))
        elif name == b"values":
            tensors.extend(_tensors(message(value)) or [Value()])
    return tensors


def _tensor(fields: Fields) -> Value:
    dims = [whole(value) for name, value in fields if name == b"dims"]
    kind = _DTYPES.get(whole(_single(fields).get(b"data_type", 0)))
    return Value(kind, tuple(None if size < 0 else size for size in dims))
