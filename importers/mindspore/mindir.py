"""Read MindIR, the models MindSpore exports: ``.mindir``.

Field numbers are those of mind_ir.proto; weights and encrypted content stay in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType, ModelGraph, Shape
from importers.kept import kept_list, kept_text
from importers.mindspore.assembly import AnfNode, FunctionBody, Value, assemble
from importers.number_formats import named_dtype
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


# Read MindSpore's IR as text: the ``.ir`` files of ``save_graphs`` and of dumps.
#
# A node is ``%1(name) = Op(%para1_x, %0) ... primitive_attrs: {...}``, then a line with types,
# ``: (<Tensor[Float32], (2, 3)>) -> (<Tensor[Float32], (2, 3)>)``, and its full name.


_MAX_BYTES = 1 << 28
_ENTRY = re.compile(r"#\s*IR entry\s*:\s*@(\S+)")
_PARAMETER = re.compile(r"(%para\d+_\S*?)\s*:\s*(<.*)")
_BODY = re.compile(r"subgraph @([^\s(]+)(.*)\{\s*")
_NODE = re.compile(r"\s+(%\d+)(?:\((\S*)\))?\s*=\s*(.+)")
_RETURN = re.compile(r"\s+Return\((.*)")
_FULL_NAME = re.compile(r"\s+# Fullname with scope:\s*\((.*)\)")
_NAMED_VALUE = re.compile(r"%[\w.\-/:$]+|@[^\s,()]+")
_LITERAL = re.compile(r"(?:I|U)\d+\((-?\d{1,20})\)")
_TYPE = re.compile(r"<(?:Ref\[)?(Tuple|List)?\[?(?:Tensor\[(\w+)\])?")
_ARGUMENT = re.compile(r"%para\d+_\S+?(?=[,)])")
_OPENING, _CLOSING = "([{<", ")]}>"


def read_ir_text(path: Path) -> ModelGraph:
    """The graph in *path*, other functions of the file as bodies.

    Raises:
        ImportFormatError: it holds no node, or a node is cut; with the line.
    """
    with mapped(path) as buffer:
        if len(buffer) > _MAX_BYTES:
            what = f"IR as text of more than {_MAX_BYTES >> 20} MiB"
            raise ImportFormatError(path, what, hint="give the ms_output_*.pb of the same graph")
        digest = sha256(buffer)
        text = buffer[:].decode("utf-8", "replace")
    reading = _Reading(path)
    for line_number, line in enumerate(text.split("\n"), 1):
        reading.take(line.rstrip("\r"), line_number)
    return assemble(reading.bodies(), path, digest, form="mindspore_ir", attrs={})


class _Reading:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._entry = ""
        self._parameters: dict[str, tuple[str, Value, bool]] = {}
        self._called: dict[str, str] = {}
        self._bodies: list[FunctionBody] = []
        self._node: AnfNode | None = None
        self._inside = False

    def bodies(self) -> list[FunctionBody]:
        """The functions read, the entry first."""
        if not any(body.nodes for body in self._bodies):
            raise ImportFormatError(self._path, "the IR has no nodes", line=1)
        self._bodies.sort(key=lambda body: body.name != self._entry)
        entry = self._bodies[0]
        for place, (name, value, is_weight) in self._parameters.items():
            where = entry.weights if is_weight else entry.inputs
            where[self._called.get(place, name)] = value
        names = {body.name for body in self._bodies}
        for body in self._bodies:
            for node in body.nodes:
                node.calls = tuple(
                    key[1:] for key in node.inputs if key.startswith("@") and key[1:] in names
                )
                node.inputs = [key for key in node.inputs if not key.startswith("@")]
        return self._bodies

    def take(self, line: str, number: int) -> None:
        """The next *line* of the file."""
        if not self._inside:
            self._take_outside(line)
        elif line.startswith("}"):
            self._inside, self._node = False, None
        elif (match := _NODE.match(line)) is not None:
            self._node = self._read_node(*match.groups(), number=number)
            self._bodies[-1].nodes.append(self._node)
        elif (match := _RETURN.match(line)) is not None:
            self._bodies[-1].outputs = [self._named(key) for key in _NAMED_VALUE.findall(match[1])]
            self._node = None
        elif self._node is not None:
            self._take_detail(line, self._node)

    def _take_outside(self, line: str) -> None:
        if (match := _ENTRY.match(line)) is not None:
            self._entry = match[1]
        elif (match := _PARAMETER.match(line)) is not None:
            number, _, name = match[1].partition("_")
            value = next(iter(_values(match[2])), Value())
            self._parameters[number] = name, value, "has_default" in line
        elif (match := _BODY.match(line)) is not None:
            self._bodies.append(self._new_body(match[1], match[2]))
            self._inside = True

    def _new_body(self, name: str, signature: str) -> FunctionBody:
        body = FunctionBody(name)
        for argument in _ARGUMENT.findall(signature):
            body.inputs.setdefault(argument.partition("_")[2], Value())
        return body

    def _named(self, reference: str) -> str:
        """A parameter by its name; nodes by their number."""
        if not reference.startswith("%para"):
            return reference
        number, _, name = reference.partition("_")
        return self._called.setdefault(number, name)

    def _read_node(self, key: str, name: str | None, rest: str, *, number: int) -> AnfNode:
        start = rest.find("(")
        end = _closing(rest, start) if start >= 0 else -1
        if end < 0:
            raise ImportFormatError(self._path, f"the node {key} is cut", line=number)
        kind = rest[:start].strip().removeprefix("PrimFunc_")
        inputs: list[str] = []
        called, _, function = kind.partition(" ")
        if called == "call" or kind[:1] in "%@":
            inputs.append(self._named(function.strip() or kind.partition("[")[0]))
            kind = "call"
        for argument in _split(rest[start + 1 : end]):
            inputs.append(self._argument(argument, key, len(inputs)))
        attrs = _attrs_of_text(rest[end + 1 :])
        return AnfNode(key, f"{kind}-{name or key[1:]}", kind, inputs, [Value()], attrs)

    def _argument(self, argument: str, key: str, position: int) -> str:
        """What an op is given: a value by its name, or a literal of a name of its own."""
        if _NAMED_VALUE.fullmatch(argument) is not None:
            return self._named(argument)
        own = f"{key} input {position}"
        literal = _LITERAL.fullmatch(argument)
        self._bodies[-1].literals[own] = int(literal[1]) if literal else kept_text(argument)
        return own

    def _take_detail(self, line: str, node: AnfNode) -> None:
        if (match := _FULL_NAME.match(line)) is not None:
            node.name = match[1]
        elif line.lstrip().startswith(": (<") and "->" in line and node.outputs == [Value()]:
            node.outputs = _values(line.rpartition("->")[2].strip()[1:-1]) or [Value()]


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at *start* closes; -1 where it does not. Texts in quotes are
    passed over."""
    depth, quoted = 0, False
    for at in range(start, len(text)):
        char = text[at]
        if char == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING and text[at - 1 : at + 1] != "->":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _split(text: str) -> Iterator[str]:
    """The parts of *text* between commas that stand in no brackets."""
    start = at = 0
    while at < len(text):
        if text[at] in _OPENING:
            end = _closing(text, at)
            at = len(text) if end < 0 else end + 1
        elif text[at] == ",":
            yield text[start:at].strip()
            start = at = at + 1
        else:
            at += 1
    if text[start:].strip():
        yield text[start:].strip()


def _values(text: str) -> list[Value]:
    """The values of types such as ``<Tensor[Float32], (2, 3)>``, members of a tuple each."""
    values: list[Value] = []
    for part in _split(text):
        kind = _TYPE.match(part)
        if kind is None:
            continue
        if kind[1] is None:
            values.append(_value(part, kind[2]))
        else:
            values.extend(_members(part))
    return values


def _value(part: str, element: str | None) -> Value:
    if element is None:
        return Value()
    shape = re.search(r",\s*\(([^()]*)\)", part)
    return Value(named_dtype(element), _shape(shape[1]) if shape else None)


def _members(part: str) -> list[Value]:
    """Those of ``<Tuple[Tensor[Float32]*5], TupleShape((2, 4), (4), ...)>``."""
    start = part.find("TupleShape(")
    end = _closing(part, start + len("TupleShape")) if start >= 0 else -1
    if end < 0:
        return [Value()]
    shapes = list(_split(part[start + len("TupleShape(") : end]))
    kinds: list[str] = []
    for element, times in re.findall(r"Tensor\[(\w+)\](?:\*(\d{1,5}))?", part[:start]):
        kinds += [element] * int(times or 1)
    same = len(kinds) == len(shapes)
    return [
        Value(named_dtype(kinds[at]) if same else None, _shape(shape.strip("()")))
        for at, shape in enumerate(shapes)
    ]


def _shape(text: str) -> Shape | None:
    sizes = [size.strip() for size in text.split(",") if size.strip()]
    if not all(size.lstrip("-").isdecimal() and len(size) < 19 for size in sizes):
        return None
    return tuple(None if int(size) < 0 else int(size) for size in sizes)


def _attrs_of_text(text: str) -> dict[str, AttrValue]:
    start = text.find("primitive_attrs: {")
    end = _closing(text, text.find("{", start)) if start >= 0 else -1
    if end < 0:
        return {}
    inside = text[text.find("{", start) + 1 : end]
    pairs = (part.partition(": ") for part in _split(inside))
    return {key.strip(): kept_text(value.strip()) for key, colon, value in pairs if colon}
