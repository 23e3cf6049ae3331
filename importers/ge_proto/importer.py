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
from importers.proto.text_reader import EventKind, TextReader, outline, unread_entries
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
                with reader.told(event.offset):
                    (graphs[-1] if event.depth else model).take(event.name, event.value)
        if not graphs or not graphs[0].nodes:
            hint = "an Ascend graph dump has `graph { op { ... } }`"
            raise ImportFormatError(path, "no op in its first graph", line=1, hint=hint)
        return assemble(graphs, model, path, sha256(buffer))
