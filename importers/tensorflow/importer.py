"""Importers of TensorFlow graphs: GraphDef, MetaGraphDef and SavedModel, binary or text."""

from __future__ import annotations

from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.contract import Confidence, Detection
from importers.prototext import outline
from importers.tensorflow.sniff import Kind, binary_kind, text_kind

_NO = Detection(Confidence.NO, "")
_MESSAGES = {Kind.GRAPH: "GraphDef", Kind.META: "MetaGraphDef", Kind.SAVED: "SavedModel"}


class _TensorFlowImporter:
    """What the three importers share; each reads one *kind*."""

    kind: Kind

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the shape of the outermost protobuf fields or field names."""
        if not head:
            return _NO
        kind = binary_kind(head)
        if kind is self.kind:
            return Detection(Confidence.SURE, f"a binary message built like a {_MESSAGES[kind]}")
        if kind is None and text_kind(outline(head)) is self.kind:
            return Detection(Confidence.SURE, f"protobuf text of a {_MESSAGES[self.kind]}")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The graph in *path*."""
        from importers.tensorflow.reading import read_tensorflow

        return read_tensorflow(path, self.kind)


class GraphDefImporter(_TensorFlowImporter):
    """Importer of (frozen) GraphDefs."""

    name = "tf_graphdef"
    reads = "TensorFlow GraphDef .pb or .pbtxt"
    kind = Kind.GRAPH


class MetaGraphImporter(_TensorFlowImporter):
    """Importer of MetaGraphDefs, the ``.meta`` files of checkpoints."""

    name = "tf_meta"
    reads = "TensorFlow .meta"
    kind = Kind.META


class SavedModelImporter(_TensorFlowImporter):
    """Importer of the main graph of a SavedModel, given as the file or its folder."""

    name = "tf_saved_model"
    reads = "SavedModel file or folder"
    kind = Kind.SAVED

    def detect(self, path: Path, head: bytes) -> Detection:
        """As the others; a folder by the file in it."""
        if not head:
            file = _inside(path)
            if file is None:
                return _NO
            return Detection(Confidence.SURE, f"a folder with a {file.name}")
        return super().detect(path, head)

    def read(self, path: Path) -> ModelGraph:
        """The main graph in *path*."""
        if not path.is_dir():
            return super().read(path)
        file = _inside(path)
        if file is None:
            raise ImportFormatError(path, "no saved_model.pb in this folder")
        return super().read(file)


def _inside(folder: Path) -> Path | None:
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if (folder / name).is_file():
            return folder / name
    return None
