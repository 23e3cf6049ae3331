"""Turn the nodes of a ge_onnx file into those of GE's own graphs.

How GE spreads an op over ONNX attributes is read from its writer,
graph_metadef/graph/utils/ge_ir_utils.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphstore.model import AttrValue, Tensor, TensorOrigin
from importers.ge_proto.messages import Fed, Node, named_layout, shape_of
from importers.kept import MAX_PORT, kept_list, kept_text, tensor_text
from importers.number_formats import dtype_named
from importers.proto.values import Fields, Value, message, number, text, whole, word

SUBGRAPH = "subgraph"
"""The type of a node that stands for a sub-graph; GE writes no other name for it."""

_PREFIX = "ge:"
# Facts of the op itself, which GE's own form keeps outside of the attributes.
_MEMBERS = frozenset(
    """
    id stream_id input_name src_name src_index dst_name dst_index input_i output_i workspace
    workspace_bytes is_input_const input_desc_nums output_desc_nums
    """.split()
)
_DESC = re.compile(r"(input|output)_desc_(.+):(\d{1,6})(?:_\d+)?")
_TENSOR_PARTS = ("_desc_dtype", "_desc_shape", "_desc_layout", "_desc_device_type", "_data")
_PARENT_INDEX = "attr__parent_node_index"

_Desc = Mapping[str, AttrValue]


@dataclass(slots=True)
class OnnxNode:
    """A node as read: an op, or (with *graph*) a sub-graph that stands among them."""

    node: Node
    graph: Fields | None = None
    values: dict[str, AttrValue] = field(default_factory=dict)


def read_onnx_node(fields: Fields) -> OnnxNode:
    """The node that *fields* of a ``NodeProto`` describe.

    Raises:
        ValueError: a field is of a wrong kind.
    """
    node = Node()
    read = OnnxNode(node)
    for name, value in fields:
        if name == b"attribute":
            _attribute(message(value), read)
        elif name == b"input":
            node.inputs.append(text(value))
        elif name == b"name":
            node.name = text(value)
        elif name == b"op_type":
            node.type = text(value).removeprefix(_PREFIX)
    if not node.name:
        raise ValueError("a node without a name")
    if node.type == SUBGRAPH:
        return read
    _spread(read.values, node)
    return read


def _attribute(fields: Fields, read: OnnxNode) -> None:
    name, kind = "", ""
    single: Value | None = None
    listed: list[AttrValue] = []
    for key, value in fields:
        if key == b"name":
            name = text(value)
        elif key == b"type":
            kind = word(value)
        elif key == b"g":
            read.graph = message(value)
        elif key in (b"i", b"f", b"s"):
            single = value
        elif key == b"ints":
            listed.append(whole(value))
        elif key == b"floats":
            listed.append(number(value))
        elif key == b"strings":
            listed.append(kept_text(text(value)))
    if not name:
        raise ValueError("an attribute without a name")
    value_of = _single(kind, single) if kind in _SINGLE else tuple(listed)
    read.values[name] = value_of


_SINGLE: Mapping[str, int | float | str] = {
    "INT": 0,
    "FLOAT": 0.0,
    "STRING": "",
    "1": 0.0,
    "2": 0,
    "3": "",
}


def _single(kind: str, value: Value | None) -> AttrValue:
    """A value by its type; proto3 leaves out zeros and empty texts."""
    default = _SINGLE[kind]
    if value is None:
        return default
    if isinstance(default, str):
        return kept_text(text(value))
    return number(value) if isinstance(default, float) else whole(value)


def _spread(values: Mapping[str, AttrValue], node: Node) -> None:
    descs: dict[tuple[str, int], dict[str, AttrValue]] = {}
    for name, value in values.items():
        match = _DESC.fullmatch(name)
        if match is not None:
            side, fact, port = match.groups()
            descs.setdefault((side, int(port)), {})[fact] = value
        elif name not in _MEMBERS:
            node.attrs[name] = _kept(value)
    _join_tensors(node.attrs)
    order = values.get("id", 0)
    node.number = order if isinstance(order, int) else 0
    outputs = _count(values.get("output_desc_nums"), "output", descs)
    node.outputs = [
        _output(f"{node.name}:{port}", port, descs.get(("output", port), {}))
        for port in range(outputs)
    ]
    if node.type == "NetOutput":
        inputs = _count(values.get("input_desc_nums"), "input", descs)
        node.feeds = [_fed(descs.get(("input", port), {})) for port in range(inputs)]


def _kept(value: AttrValue) -> AttrValue:
    if isinstance(value, tuple) and not (value and isinstance(value[0], str)):
        return kept_list(value)
    return value


def _count(told: AttrValue | None, side: str, descs: Mapping[tuple[str, int], _Desc]) -> int:
    seen = max((port + 1 for which, port in descs if which == side), default=0)
    count = max(told, seen) if isinstance(told, int) else seen
    if count > MAX_PORT:
        raise ValueError(f"an op with {count} {side}s")
    return count


def _join_tensors(attrs: dict[str, AttrValue]) -> None:
    """Of a tensor in an attribute GE writes type, shape and layout as attributes of their own."""
    for name in [key for key in attrs if key.endswith("_desc_dtype")]:
        stem = name.removesuffix("_desc_dtype")
        shape = attrs.get(f"{stem}_desc_shape")
        dtype = dtype_named(str(attrs[name]))
        for part in _TENSOR_PARTS:
            attrs.pop(stem + part, None)
        attrs[stem] = tensor_text(dtype, shape_of(shape))


def _output(name: str, port: int, desc: _Desc) -> Tensor:
    dtype = dtype_named(str(desc.get("dtype", "")))
    # A level 3 dump has no descriptors at all; else a shape without dimensions is a scalar's.
    shape = shape_of(desc.get("shape")) if desc else None
    return Tensor(name, dtype, shape, named_layout(desc.get("layout")), _origin(desc, port))


def _origin(desc: _Desc, port: int) -> TensorOrigin | None:
    if not desc:
        return None
    index = desc.get("attr__datadump_origin_output_index", port)
    layout = named_layout(desc.get("attr__datadump_origin_format"))
    dtype = desc.get("attr__datadump_origin_data_type") or desc.get("origin_dtype", "")
    return TensorOrigin(
        op=str(desc.get("attr__datadump_origin_name", "")),
        port=index if isinstance(index, int) else port,
        layout=layout or named_layout(desc.get("origin_layout")),
        dtype=dtype_named(str(dtype)),
        shape=shape_of(desc.get("origin_shape") or None),
    )


def _fed(desc: _Desc) -> Fed:
    port = desc.get(_PARENT_INDEX)
    untyped = dtype_named(str(desc.get("dtype", ""))) is None
    placeholder = untyped and named_layout(desc.get("layout")) is None
    return Fed(placeholder, port if isinstance(port, int) else None)
