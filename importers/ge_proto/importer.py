"""Read a GE graph dump (``ge_proto_*.txt``, text of ``ge.proto.ModelDef``)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.fusion_result import with_fusion_result
from importers.ge_proto.assembly import RawGraph, assemble
from importers.ge_proto.folder import candidates, choose_graph
from importers.ge_proto.messages import read_attr, read_node
from importers.ge_proto.values import text
from importers.proto.text_reader import Event, EventKind, TextReader, outline, unread_entries
from importers.source import mapped, sha256

_FILE_NAME = re.compile(r"ge_proto_.*\.txt$")
_ONNX_ONLY = {(b"ir_version",), (b"opset_import",), (b"graph", b"node")}


class GeProtoImporter:
    """Importer of GE graph dumps: a file of any phase, or a folder of them."""

    name = "ge_proto_text"
    reads = "Ascend ge_proto_*.txt or their folder"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the outline ``graph { op {``; in a folder by the file names."""
        if not head:
            found = candidates(path)
            reason = f"{len(found)} ge_proto_*.txt in the folder"
            return Detection(Confidence.SURE if found else Confidence.NO, reason)
        names = outline(head)
        if names & _ONNX_ONLY:
            return Detection(Confidence.NO, "it is ONNX text")
        if (b"graph", b"op") in names:
            return Detection(Confidence.SURE, "protobuf text with `graph { op {`")
        named = _FILE_NAME.search(path.name) is not None and b"\x00" not in head
        if named or (b"graph",) in names:
            reason = "named ge_proto_*.txt" if named else "protobuf text with `graph {`"
            return Detection(Confidence.MAYBE, reason)
        return Detection(Confidence.NO, "")

    def read(self, path: Path) -> ModelGraph:
        """The device graph in *path*; of a folder, the graph that ran."""
        if not path.is_dir():
            return with_fusion_result(read_ge_text(path), path)
        choice = choose_graph(path, ())
        graph = with_fusion_result(read_ge_text(choice.path), choice.path)
        if not choice.others:
            return graph
        return replace(graph, warnings=(choice.reason, *graph.warnings))


def read_ge_text(path: Path) -> ModelGraph:
    """The device graph in the file *path*, its first graph as the root.

    Raises:
        ImportFormatError: with line and column, where the text is broken or cut.
    """
    with mapped(path) as buffer:
        reader = TextReader(buffer, path, unread_entries)
        graphs: list[RawGraph] = []
        model = RawGraph()
        for event in reader.events(b"graph"):
            if event.kind is EventKind.ENTER:
                graphs.append(RawGraph())
            elif event.kind is EventKind.FIELD:
                try:
                    _take(graphs[-1] if event.depth else model, event)
                except ValueError as error:
                    raise reader.error(event.offset, str(error)) from error
        if not graphs or not graphs[0].nodes:
            hint = "an Ascend graph dump has `graph { op { ... } }`"
            raise ImportFormatError(path, "no op in its first graph", line=1, hint=hint)
        return assemble(graphs, model, path, sha256(buffer))


def _take(graph: RawGraph, event: Event) -> None:
    if event.name == b"op":
        if isinstance(event.value, bytes):
            raise ValueError("op is not a block")
        graph.nodes.append(read_node(event.value))
    elif event.name == b"attr":
        read_attr(event.value, graph.attrs)
    elif event.name == b"name":
        graph.name = text(event.value)
    elif event.name == b"input":
        graph.inputs.append(text(event.value))
    elif event.name == b"output":
        graph.outputs.append(text(event.value))
