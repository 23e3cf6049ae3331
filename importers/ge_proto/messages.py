"""Turn the fields of GE's ``OpDef`` and ``TensorDescriptor`` into plain values.

Field names follow ge_ir.proto; unknown ones are passed over, since files of many CANN
versions circulate. Every function raises ValueError on a field of a wrong kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

from graphstore.model import AttrValue, DType, Shape, Tensor, TensorOrigin
from importers.kept import MAX_PORT, MAX_TEXT, kept_list, kept_text, tensor_text
from importers.number_formats import dtype_named, layout_named
from importers.proto.text_reader import Entry, entry_fields
from importers.proto.values import (
    BinarySpan,
    Fields,
    Value,
    message,
    number,
    text,
    truth,
    whole,
    word,
)


class Fed(NamedTuple):
    """What a NetOutput's input descriptor says: whether it only keeps a place, and which
    output of the body's owner it feeds (None: it does not say)."""

    placeholder: bool
    port: int | None


@dataclass(slots=True)
class Node:
    """One ``op`` block. *inputs* are as written: data inputs, then control ones (``:-1``).

    *feeds* is known of a NetOutput only.
    """

    name: str = ""
    type: str = ""
    number: int = 0
    inputs: list[str] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    subgraphs: list[str] = field(default_factory=list)
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    feeds: list[Fed] = field(default_factory=list)


def read_node(fields: Fields) -> Node:
    """The op that *fields* describe."""
    node = Node()
    inputs: list[Value] = []
    outputs: list[Value] = []
    for name, value in fields:
        if name == b"attr":
            read_attr(value, node.attrs)
        elif name == b"output_desc":
            outputs.append(value)
        elif name == b"input_desc":
            inputs.append(value)
        elif name == b"input":
            node.inputs.append(text(value))
        elif name == b"name":
            node.name = text(value)
        elif name == b"type":
            node.type = text(value)
        elif name == b"id":
            node.number = whole(value)
        elif name == b"subgraph_name":
            node.subgraphs.append(text(value))
    if not node.name:
        raise ValueError("an op without a name")
    if max(len(inputs), len(outputs)) > MAX_PORT:
        raise ValueError(f"an op with {len(inputs)} inputs and {len(outputs)} outputs")
    if node.type == "NetOutput":  # the only descriptors of inputs that are asked for later
        node.feeds = [_fed(message(desc)) for desc in inputs]
    node.outputs = [_output(f"{node.name}:{k}", k, message(d)) for k, d in enumerate(outputs)]
    return node


def read_attr(
    entry: Value, attrs: dict[str, AttrValue], only: frozenset[str] | None = None
) -> None:
    """Add one ``attr`` map entry to *attrs*, if it has a value and its key is in *only*."""
    if type(entry) is tuple:
        short = len(entry[2] or entry[3] or b"") < 200
        key, attr = _known(entry) if short else _converted(entry)
        if attr is not None and (only is None or key in only):
            attrs[key] = attr
        return
    key, value = _map_entry(entry)
    if only is None or key in only:
        attr = _attr_value(value)
        if attr is not None:
            attrs[key] = attr


def read_desc(fields: Fields) -> Tensor:
    """What a descriptor by itself says of its tensor."""
    return _output("", 0, fields)


def _converted(entry: Entry) -> tuple[str, AttrValue | None]:
    return _key(entry[0]), _attr_value(entry_fields(entry))


# A graph repeats some thousand attributes a million times: read and keep each one once.
_known = lru_cache(maxsize=4096)(_converted)


def _attr_value(value: Fields) -> AttrValue | None:
    if not value:
        return None
    kind, content = value[-1]  # of a oneof set twice the last counts
    convert = _CONVERT.get(kind)
    return None if convert is None else convert(content)


def _fed(desc: Fields) -> Fed:
    attrs: dict[str, AttrValue] = {}
    layout, typed = "", False
    for name, value in desc:
        if name == b"attr":
            read_attr(value, attrs, frozenset({_PARENT_INDEX}))
        elif name == b"layout":
            layout = text(value)
        elif name == b"dtype":
            typed = word(value) not in ("0", "DT_UNDEFINED")
    port = attrs.get(_PARENT_INDEX)
    placeholder = not typed and layout_named(layout) is None
    return Fed(placeholder, port if isinstance(port, int) else None)


def _map_entry(entry: Value) -> tuple[str, Fields]:
    key, value = "", None
    for name, content in message(entry):
        if name == b"key":
            key = _key(content) if isinstance(content, bytes) else text(content)
        elif name == b"value":
            value = message(content)
    return key, value or []


@lru_cache(maxsize=10_000)
def _key(literal: bytes) -> str:
    return text(literal)


_ORIGIN_KEYS = frozenset(
    """
    _datadump_origin_name _datadump_origin_output_index _datadump_origin_format
    _datadump_origin_data_type origin_format origin_shape origin_shape_initialized origin_data_type
    """.split()
)
_PARENT_INDEX = "_parent_node_index"


def _output(name: str, port: int, desc: Fields) -> Tensor:
    dtype: DType | None = None
    shape: Shape | None = None
    is_scalar = False
    layout = None
    attrs: dict[str, AttrValue] = {}
    for key, value in desc:
        if key == b"attr":
            read_attr(value, attrs, _ORIGIN_KEYS)
        elif key == b"dtype":
            dtype = dtype_named(word(value))
        elif key == b"shape":
            is_scalar = True
            shape = shape_of(tuple(whole(d) for n, d in message(value) if n == b"dim"))
        elif key == b"layout":
            layout = layout_named(text(value))
    origin = _origin(attrs, port)
    # Without a shape a descriptor is a scalar's or was never filled; its origin tells which.
    if shape is None and not is_scalar and origin is not None and origin.shape == ():
        shape = ()
    return Tensor(name, dtype, shape, layout, origin)


def shape_of(dims: AttrValue | None) -> Shape | None:
    """Source: ge_ir.proto ShapeDef: -1 is an unknown dimension, -2 an unknown rank."""
    if not isinstance(dims, tuple) or -2 in dims:
        return None
    return tuple(None if dim < 0 else dim for dim in dims if isinstance(dim, int))


def named_layout(name: AttrValue | None) -> str | None:
    """The layout an attribute names."""
    return layout_named(name) if isinstance(name, str) else None


def _origin(attrs: dict[str, AttrValue], port: int) -> TensorOrigin | None:
    if not attrs:
        return None
    index = attrs.get("_datadump_origin_output_index", port)
    dtype = attrs.get("_datadump_origin_data_type") or attrs.get("origin_data_type")
    dims = attrs.get("origin_shape")
    has_shape = dims or attrs.get("origin_shape_initialized", True)
    return TensorOrigin(
        op=str(attrs.get("_datadump_origin_name", "")),
        port=index if isinstance(index, int) else port,
        layout=named_layout(attrs.get("_datadump_origin_format") or attrs.get("origin_format")),
        dtype=dtype_named(dtype) if isinstance(dtype, str) else None,
        shape=shape_of(dims) if has_shape else None,
    )


def _text_attr(value: Value) -> AttrValue:
    if isinstance(value, BinarySpan):
        return f"text of {value.size} characters, left out"
    # Long ones are whole files in an attribute; only the start is worth decoding.
    if isinstance(value, bytes) and len(value) > 8 * MAX_TEXT:
        return f"text of {len(value)} characters, left out"
    return kept_text(text(value))


def _bytes_attr(value: Value) -> AttrValue:
    if isinstance(value, BinarySpan):
        return f"{value.size} bytes, left out"
    if isinstance(value, (bytes, str)):
        return f"bytes, {len(value)} characters as text"
    raise ValueError("no bytes where bytes belong")


def _list_attr(value: Value) -> AttrValue:
    # The filled field tells the type: the serializer's own lists carry no val_type.
    items: list[AttrValue] = []
    for name, item in message(value):
        if name in _LISTED:
            if isinstance(item, BinarySpan) and name not in (b"s", b"bt"):
                return f"list of {item.size} bytes, left out"
            items.append(_CONVERT[name](item))
    # Lists of names are short, and lineage needs every one of them.
    return tuple(items) if items and isinstance(items[0], str) else kept_list(items)


def _nested_list_attr(value: Value) -> AttrValue:
    readers: dict[bytes, tuple[bytes, Callable[[Value], float]]] = {
        b"list_list_i": (b"list_i", whole),
        b"list_list_f": (b"list_f", number),
    }
    rows: list[AttrValue] = []
    for name, row in message(value):
        if name in readers:
            wanted, read = readers[name]
            rows.append(kept_list([read(item) for kind, item in message(row) if kind == wanted]))
    return kept_list(rows)


def _named_attr(value: Value, what: str = "function") -> AttrValue:
    names = [text(content) for name, content in message(value) if name == b"name"]
    return f"{what} {names[-1]}" if names else what


def _desc_attr(value: Value) -> AttrValue:
    tensor = read_desc(message(value))
    return tensor_text(tensor.dtype, tensor.shape)


def _tensor_attr(value: Value) -> AttrValue:
    descs = [content for name, content in message(value) if name == b"desc"]
    return _desc_attr(descs[-1]) if descs else "tensor"


_CONVERT: dict[bytes, Callable[[Value], AttrValue]] = {
    b"s": _text_attr,
    b"expression": _text_attr,
    b"i": whole,
    b"dt": whole,
    b"f": number,
    b"b": truth,
    b"bt": _bytes_attr,
    b"list": _list_attr,
    b"list_list_int": _nested_list_attr,
    b"list_list_float": _nested_list_attr,
    b"func": _named_attr,
    b"na": _named_attr,
    b"g": partial(_named_attr, what="graph"),
    b"td": _desc_attr,
    b"t": _tensor_attr,
}
_LISTED = frozenset({b"s", b"i", b"f", b"b", b"bt", b"td", b"t", b"g", b"na", b"dt"})
