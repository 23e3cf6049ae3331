"""Read a ``ge_onnx_*.pbtxt``: text of an ONNX-like model whose op types start with ``ge:``."""

from __future__ import annotations

import re
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, ModelGraph
from importers.contract import Confidence, Detection
from importers.ge_onnx.nodes import OnnxNode, read_onnx_node
from importers.ge_proto.assembly import RawGraph, assemble
from importers.ge_proto.messages import Node
from importers.kept import told_of
from importers.proto.text_reader import EventKind, TextReader, outline
from importers.proto.values import Fields, Value, message, text, word
from importers.source import mapped, sha256

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
            told = [*_name_owners(graphs), *_missing_lineage(graphs)]
            digest = sha256(buffer)
            return assemble(graphs, model, path, digest, form="ge_onnx", warnings=told)


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
            graph.inputs.extend(f"{each}:0" for each in _names(message(value)))
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
    given: list[str] = []
    for body in graphs[1:]:
        owner = _owner(body.name, callers)
        if owner is not None:
            owner.subgraphs.append(body.name)
            given.append(body.name)
    what = (
        "{sub-graph was given to an op by its name|sub-graphs were given to ops by their names}, "
        "as the file does not say whose {it is|they are}"
    )
    return told_of(given, what)


def _is_caller(node: Node) -> bool:
    return node.type.removeprefix("Stateless").removeprefix("Stateful") in _CALLERS


def _owner(body: str, callers: list[Node]) -> Node | None:
    alike = [
        node
        for node in callers
        if body and (node.name.startswith(f"{body}_") or body.startswith(node.name))
    ]
    return max(alike, key=lambda node: len(node.name), default=None)
