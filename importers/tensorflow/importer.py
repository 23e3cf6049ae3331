"""Importers of TensorFlow graphs: GraphDef, MetaGraphDef and SavedModel, binary or text.

All three end in ``.pb`` as often as not, and their field numbers overlap; sources are
graph.proto, meta_graph.proto and saved_model.proto of TensorFlow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import HEAD_BYTES, Confidence, Detection
from importers.proto.literals import string
from importers.proto.text_reader import outline
from importers.proto.wire import BLOCK, VARINT, WireField, outer_fields

_OP_TYPE = re.compile(rb"[A-Za-z_>][\w>./-]*")


class TensorFlowMessage(Enum):
    """Which message a TensorFlow file holds."""

    GRAPH = "graphdef"
    META = "meta"
    SAVED = "saved_model"


def binary_kind(head: bytes) -> TensorFlowMessage | None:
    """The kind of a binary file that starts with *head*."""
    fields = outer_fields(head)
    kinds = {field.kind for field in fields}
    if not fields:
        return None
    if kinds <= {(1, VARINT), (2, BLOCK)} and _holds_meta(fields):
        return TensorFlowMessage.SAVED
    if not kinds <= {(n, BLOCK) for n in range(1, 8)} | {(3, VARINT)}:
        return None
    if _is_graph(fields):
        return TensorFlowMessage.GRAPH
    return TensorFlowMessage.META if _is_meta_fields(fields) else None


def text_kind(names: set[tuple[bytes, ...]]) -> TensorFlowMessage | None:
    """The kind of a text with the field *names* (see ``prototext.outline``)."""
    if (b"meta_graphs",) in names:
        return TensorFlowMessage.SAVED
    if (b"meta_info_def",) in names or (b"graph_def",) in names:
        return TensorFlowMessage.META
    return TensorFlowMessage.GRAPH if (b"node", b"op") in names else None


def _holds_meta(fields: list[WireField]) -> bool:
    graphs = [field.content for field in fields if field.number == 2]
    return bool(graphs) and _is_meta_fields(outer_fields(graphs[0]))


def _is_meta_fields(fields: list[WireField]) -> bool:
    """A MetaGraphDef: meta_info_def, graph_def, then collections and signatures."""
    if not fields or any(field.wire_type != BLOCK for field in fields):
        return False
    for field in fields:
        if field.number == 2 and _is_graph(outer_fields(field.content)):
            return True
        if field.number == 1 and _is_info(field.content):
            return True
    return False


def _is_info(content: bytes) -> bool:
    """MetaInfoDef: its own texts, or the list of the ops used."""
    fields = outer_fields(content)
    if not fields or any(field.number > 8 for field in fields):
        return False
    if any(field.number == 3 and _OP_TYPE.fullmatch(field.content) for field in fields):
        return False  # a node of MindSpore's graphs; here it is a message with an address of a type
    return any(
        (field.number == 5 and field.content[:1].isdigit())
        or (field.number == 2 and field.content[:1] == b"\x0a")
        or field.number == 4
        for field in fields
    )


def _is_graph(fields: list[WireField]) -> bool:
    """A GraphDef: its nodes come first, each with a name and an op."""
    if not fields or fields[0].kind != (1, BLOCK):
        return False
    node = {field.number: field for field in outer_fields(fields[0].content)}
    named = 1 in node and node[1].wire_type == BLOCK
    op = node.get(2)
    return named and op is not None and _OP_TYPE.fullmatch(op.content) is not None


_LATEST = re.compile(rb'\s*model_checkpoint_path\s*:\s*("(?:[^"\\\n]|\\.)*")')
_NO = Detection(Confidence.NO, "")
_MESSAGES = {
    TensorFlowMessage.GRAPH: "GraphDef",
    TensorFlowMessage.META: "MetaGraphDef",
    TensorFlowMessage.SAVED: "SavedModel",
}


class _TensorFlowImporter:
    """What the three importers share; each reads one *kind*."""

    kind: TensorFlowMessage

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the shape of the outermost protobuf fields or field names; a folder by its file."""
        if not head:
            file = self.inside(path)
            return Detection(Confidence.SURE, f"a folder with {file.name}") if file else _NO
        kind = binary_kind(head)
        if kind is self.kind:
            return Detection(Confidence.SURE, f"a binary message built like a {_MESSAGES[kind]}")
        if kind is None and text_kind(outline(head)) is self.kind:
            return Detection(Confidence.SURE, f"protobuf text of a {_MESSAGES[self.kind]}")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The graph in *path*, a file or a folder with one."""
        return self.read_with(path, {})

    def read_with(self, path: Path, options: Mapping[str, str]) -> ModelGraph:
        """The graph in *path*; see ``options`` of the importers that have some."""
        from importers.tensorflow.reading import read_tensorflow

        file = self.inside(path) if path.is_dir() else path
        if file is None:
            raise ImportFormatError(path, f"no {_MESSAGES[self.kind]} in this folder")
        return read_tensorflow(file, self.kind, options.get("tags", ""))

    def inside(self, folder: Path) -> Path | None:
        """The file of this kind that *folder* stands for; None if it stands for none."""
        return None


class GraphDefImporter(_TensorFlowImporter):
    """Importer of (frozen) GraphDefs."""

    name = "tf_graphdef"
    reads = "TensorFlow GraphDef .pb or .pbtxt"
    kind = TensorFlowMessage.GRAPH


class MetaGraphImporter(_TensorFlowImporter):
    """Importer of MetaGraphDefs, the ``.meta`` files of checkpoints."""

    name = "tf_meta"
    reads = "TensorFlow .meta"
    kind = TensorFlowMessage.META

    def inside(self, folder: Path) -> Path | None:
        """The ``.meta`` of the checkpoint that the list called ``checkpoint`` names latest."""
        listed = folder / "checkpoint"
        if not listed.is_file() or listed.stat().st_size > HEAD_BYTES:
            return None
        latest = _LATEST.match(listed.read_bytes())
        if latest is None:
            return None
        # Its folder may be that of another machine; nothing outside of this one is looked at.
        name = PurePath(string(latest[1])).name
        file = folder / f"{name}.meta"
        return file if name and file.is_file() else None


class SavedModelImporter(_TensorFlowImporter):
    """Importer of the main graph of a SavedModel, given as the file or its folder."""

    name = "tf_saved_model"
    reads = "SavedModel file or folder"
    kind = TensorFlowMessage.SAVED
    options: Mapping[str, str] = {
        "tags": "the tags of the graph to read, with commas between (default: serve)"
    }

    def inside(self, folder: Path) -> Path | None:
        """The file of a SavedModel."""
        files = (folder / name for name in ("saved_model.pb", "saved_model.pbtxt"))
        return next((file for file in files if file.is_file()), None)
