"""Read a ``ge_onnx_*.pbtxt``: text of an ONNX-like model whose op types start with ``ge:``.

How GE spreads an op over ONNX attributes is read from its writer,
graph_metadef/graph/utils/ge_ir_utils.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, ModelGraph, Tensor, TensorOrigin
from importers.contract import Confidence, Detection
from importers.ge_proto.assembly import RawGraph, assemble
from importers.ge_proto.messages import Fed, Node, named_layout, shape_of
from importers.kept import MAX_PORT, kept_list, kept_text, tensor_text, told_of
from importers.number_formats import dtype_named
from importers.proto.text_reader import EventKind, TextReader, outline
from importers.proto.values import Fields, Value, message, number, text, whole, word
from importers.source import mapped, sha256

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
            node.attrs[name] = _short_attr(value)
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


def _short_attr(value: AttrValue) -> AttrValue:
    if isinstance(value, tuple) and not (value and isinstance(value[0], str)):
        return kept_list(value)
    return value


def _count(stated: AttrValue | None, side: str, descs: Mapping[tuple[str, int], _Desc]) -> int:
    seen = max((port + 1 for which, port in descs if which == side), default=0)
    count = max(stated, seen) if isinstance(stated, int) else seen
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


_GE_TYPE = re.compile(rb"\bop_type\s*+:\s*+[\"']ge:")
_CALLERS = frozenset({"PartitionedCall", "If", "Case", "While", "For"})
_ORIGINALS = "_datadump_original_op_names"


class GeOnnxImporter:
    """Importer of the ONNX-like text dumps of GE."""

    name = "ge_onnx"
    reads = "Ascend ge_onnx_*.pbtxt"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By ``graph { node {`` and op types that start with ``ge:``."""
        names = outline(head) if head else set()
        if not names & {(b"graph", b"node"), (b"ir_version",), (b"graph",)}:
            return Detection(Confidence.NO, "")
        if _GE_TYPE.search(head):
            return Detection(Confidence.SURE, 'ONNX text whose op types start with "ge:"')
        if (b"producer_name", b'"GE"') in names:
            return Detection(Confidence.SURE, 'ONNX text whose producer is "GE"')
        named = (b"graph", b"node") in names and path.name.startswith("ge_onnx_")
        return Detection(Confidence.MAYBE if named else Confidence.NO, "named ge_onnx")

    def read(self, path: Path) -> ModelGraph:
        """The device graph in *path*, its sub-graphs as bodies."""
        with mapped(path) as buffer:
            reader = TextReader(buffer, path)
            root = RawGraph()
            model = RawGraph()
            bodies: list[RawGraph] = []
            for event in reader.events(b"graph"):
                if event.kind is not EventKind.FIELD:
                    continue
                with reader.told(event.offset):
                    if event.depth == 0:
                        _note(event.name, event.value, model.attrs)
                    else:
                        bodies.extend(_take([(event.name, event.value)], root))
            if not root.nodes:
                hint = 'a ge_onnx file has `graph { node { op_type: "ge:..." } }`'
                raise ImportFormatError(path, "no op in its graph", line=1, hint=hint)
            graphs = [root, *bodies]
            warnings = [*_name_owners(graphs), *_missing_lineage(graphs)]
            digest = sha256(buffer)
            return assemble(graphs, model, path, digest, form="ge_onnx", warnings=warnings)


def _note(name: bytes, value: Value, attrs: dict[str, AttrValue]) -> None:
    if name == b"producer_name":
        attrs[name.decode()] = text(value)
    elif name in (b"ir_version", b"model_version", b"producer_version"):
        attrs[name.decode()] = word(value)


def _take(fields: Fields, graph: RawGraph) -> list[RawGraph]:
    """Add *fields* of a ``GraphProto`` to *graph*; gives the sub-graphs among its nodes."""
    bodies: list[RawGraph] = []
    for name, value in fields:
        if name == b"node":
            read = read_onnx_node(message(value))
            if read.graph is None:
                graph.nodes.append(read.node)
            else:
                bodies.extend(_body(read, read.graph))
        elif name == b"name":
            graph.name = text(value)
        elif name == b"input":
            graph.inputs.extend(f"{name}:0" for name in _names(message(value)))
        elif name == b"output":
            graph.outputs.extend(_names(message(value)))
    return bodies


def _body(read: OnnxNode, fields: Fields) -> list[RawGraph]:
    body = RawGraph()
    inner = _take(fields, body)
    body.name = body.name or read.node.name
    return [body, *inner]


def _names(fields: Fields) -> list[str]:
    return [text(value) for name, value in fields if name == b"name"]


def _missing_lineage(graphs: list[RawGraph]) -> list[str]:
    """Texts among the attributes are written at dump level 1 only, and origins are texts."""
    nodes: list[Node] = [node for graph in graphs for node in graph.nodes]
    if any(_ORIGINALS in node.attrs for node in nodes):
        return []
    return [
        "the file does not say which originals its ops stand for (written with"
        " DUMP_GE_GRAPH=1 only): ops are found by their names; ge_proto_*.txt says more"
    ]


def _name_owners(graphs: list[RawGraph]) -> list[str]:
    """Give ops the sub-graphs named after them (or they after those); tells how many.

    GE names a partition's op ``<sub-graph>_PartitionedCall_<n>``, and front ends name bodies
    after their op. ``graphs[0]`` is the root.
    """
    callers = [node for graph in graphs for node in graph.nodes if _is_caller(node)]
    added: list[str] = []
    for body in graphs[1:]:
        owner = _owner(body.name, callers)
        if owner is not None:
            owner.subgraphs.append(body.name)
            added.append(body.name)
    what = (
        "{sub-graph was given to an op by its name|sub-graphs were given to ops by their names}, "
        "as the file does not say whose {it is|they are}"
    )
    return told_of(added, what)


def _is_caller(node: Node) -> bool:
    return node.type.removeprefix("Stateless").removeprefix("Stateful") in _CALLERS


def _owner(body: str, callers: list[Node]) -> Node | None:
    alike = [
        node
        for node in callers
        if body and (node.name.startswith(f"{body}_") or body.startswith(node.name))
    ]
    return max(alike, key=lambda node: len(node.name), default=None)
