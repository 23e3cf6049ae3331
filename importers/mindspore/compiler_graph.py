"""Read the graphs MindSpore's compiler leaves beside dumps: ``ms_output_*.pb``.

Field numbers are those of anf_ir.proto (a ``ModelProto`` with one graph, or a bare graph).
"""

from __future__ import annotations

from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType, ModelGraph
from importers.kept import kept_list, kept_text
from importers.mindspore.assembly import AnfNode, FunctionBody, Value, assemble
from importers.proto.schema_reader import SchemaReader, schema
from importers.proto.text_reader import Buffer
from importers.proto.values import BinarySpan, Fields, message, number, text, truth, whole
from importers.proto.values import Value as Read
from importers.source import mapped, sha256

_SCHEMA = schema("""
    ModelProto: 1=ir_version/integer 4=graph/binary
    GraphProto: 1=node/Node 2=name/text 3=parameters/Parameter 4=outputs/Output
        5=const_vals/NamedValue
    Node: 1=input/Input 2=name/text 3=op_type/text 4=scope/text 5=attribute/Attribute
        6=output_type/Type 8=full_name/text 10=instance_name/text
    Input: 1=name/text 2=type/integer
    Attribute: 1=name/text 2=value/AttrValue
    NamedValue: 1=key/text 2=value/AttrValue
    Parameter: 1=name/text 2=type/Type 3=default_val/AttrValue
    Output: 1=name/text
    AttrValue: 1=dtype/integer 2=bool_val/truth 3=int_val/integer 4=uint_val/integer
        5=float_val/float 6=double_val/double 7=str_val/text 8=tensor_val/Tensor
        10=bool_vals/truth 11=int_vals/integer 12=uint_vals/integer 13=float_vals/float
        14=double_vals/double 15=str_vals/text 18=values/AttrValue 19=dict_val/NamedValue
    Tensor: 1=dims/integer 2=data_type/integer
    Type: 1=data_type/integer 2=tensor_type/TensorType 3=sequence_type/Sequence
    TensorType: 1=elem_type/integer 2=shape/TensorShape
    TensorShape: 1=dim/Dimension
    Dimension: 1=size/integer
    Sequence: 1=elem_types/Type
""")
_ORDER = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
_DTYPES: dict[int, DType] = dict(enumerate(map(DType, _ORDER.split()), 1))
"""Element types as anf_ir.proto numbers them; its other numbers are no elements of tensors."""


def read_compiler_graph(path: Path, *, bare: bool) -> ModelGraph:
    """The graph in *path*, a ``ModelProto`` or (*bare*) only its graph.

    Raises:
        ImportFormatError: damaged, with the byte.
    """
    with mapped(path) as buffer:
        reader = SchemaReader(buffer, path, _SCHEMA, repeated="Attribute")
        whole_file = BinarySpan(0, len(buffer))
        body = _body(reader, whole_file if bare else _graph_span(reader, path, buffer))
        if not body.nodes:
            raise ImportFormatError(path, "the graph has no nodes", offset=0)
        return assemble([body], path, sha256(buffer), form="mindspore_graph", attrs={})


def _graph_span(reader: SchemaReader, path: Path, buffer: Buffer) -> BinarySpan:
    for name, value, _ in reader.top("ModelProto", BinarySpan(0, len(buffer))):
        if name == b"graph" and isinstance(value, BinarySpan):
            return value
    raise ImportFormatError(path, "the file holds no graph", offset=0)


def _body(reader: SchemaReader, span: BinarySpan) -> FunctionBody:
    body = FunctionBody()
    returned: list[str] = []
    for name, value, at in reader.top("GraphProto", span):
        with reader.told(at):
            if name == b"node":
                body.nodes.append(_node(message(value)))
            elif name == b"name":
                body.name = text(value)
            elif name == b"parameters":
                _parameter(message(value), body)
            elif name == b"outputs":
                returned += [
                    text(value_name) for key, value_name in message(value) if key == b"name"
                ]
            elif name == b"const_vals":
                fields = dict(message(value))
                attr = _attr(message(fields[b"value"])) if b"value" in fields else "nothing"
                body.literals[text(fields.get(b"key", ""))] = attr
    body.outputs = returned
    return body


def _node(fields: Fields) -> AnfNode:
    single = {key: value for key, value in fields if key not in (b"input", b"attribute")}
    key = text(single.get(b"name", ""))
    kind = text(single.get(b"op_type", ""))
    attrs: dict[str, AttrValue] = {}
    for name, value in fields:
        if name == b"attribute":
            entry = dict(message(value))
            attrs[text(entry.get(b"name", ""))] = _attr(message(entry.get(b"value", [])))
    if b"instance_name" in single:
        attrs["instance_name"] = kept_text(text(single[b"instance_name"]))
    return AnfNode(
        key,
        text(single.get(b"full_name", ""))
        or "/".join(filter(None, (_scope(single), f"{kind}-{key}"))),
        kind,
        [_named(value) for name, value in fields if name == b"input"],
        _types(message(single[b"output_type"])) if b"output_type" in single else [],
        attrs,
    )


def _scope(single: dict[bytes, Read]) -> str:
    return text(single.get(b"scope", ""))


def _named(value: Read) -> str:
    return text(dict(message(value)).get(b"name", ""))


def _parameter(fields: Fields, body: FunctionBody) -> None:
    single = dict(fields)
    name = text(single.get(b"name", ""))
    kinds = _types(message(single[b"type"])) if b"type" in single else [Value()]
    where = body.weights if b"default_val" in single else body.inputs
    where[name] = kinds[0] if kinds else Value()


def _types(fields: Fields) -> list[Value]:
    """The values of a type: one of a tensor, its members of a tuple."""
    for name, value in fields:
        if name == b"tensor_type":
            return [_tensor(message(value))]
        if name == b"sequence_type":
            inner = [message(element) for key, element in message(value) if key == b"elem_types"]
            return [_member(next(iter(_types(element)), Value())) for element in inner]
    kind = _DTYPES.get(whole(next((v for n, v in fields if n == b"data_type"), 0)))
    return [Value(kind, () if kind else None)]


def _member(value: Value) -> Value:
    """A member of a tuple: the file leaves out its shape, as it does of a number."""
    return value if value.shape else Value(value.dtype)


def _tensor(fields: Fields) -> Value:
    single = dict(fields)
    dims = (
        whole(size)
        for key, dim in message(single.get(b"shape", []))
        if key == b"dim"
        for name, size in message(dim)
        if name == b"size"
    )
    return Value(
        _DTYPES.get(whole(single.get(b"elem_type", 0))),
        tuple(None if size < 0 else size for size in dims),
    )


def _attr(fields: Fields) -> AttrValue:
    """A value as kept: a list as its elements, a tensor in words."""
    values: list[AttrValue] = []
    listed = False
    for name, value in fields:
        if name == b"dtype":
            listed = whole(value) in _LISTS
        elif name == b"tensor_val":
            single = dict(message(value))
            kind = _DTYPES.get(whole(single.get(b"data_type", 0)))
            values.append(f"tensor {kind.value if kind else 'of unknown type'}")
        elif name == b"values":
            values.append(_attr(message(value)))
        elif name == b"dict_val":
            entry = dict(message(value))
            member = _attr(message(entry.get(b"value", [])))
            values.append((text(entry.get(b"key", "")), member))
        else:
            values.append(_scalar(name, value))
    if not listed and len(values) == 1:
        return values[0]
    return kept_list(values) if values or listed else "nothing"


_LISTS = range(16, 34)
"""``DT_BOOLS`` to ``DT_DICT`` of anf_ir.proto."""


def _scalar(name: bytes, value: Read) -> AttrValue:
    kind = name.partition(b"_")[0]
    if kind == b"bool":
        return truth(value)
    if kind in (b"float", b"double"):
        return number(value)
    return kept_text(text(value)) if kind == b"str" else whole(value)
