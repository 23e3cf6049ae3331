"""Read ``.air`` models: a whole ``ge.proto.ModelDef``, as MindSpore and TorchAir export it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import GraphKind, ModelGraph
from importers.contract import Confidence, Detection
from importers.ge_proto.assembly import assemble
from importers.om.importer import read_definition
from importers.proto.values import BinarySpan
from importers.proto.wire import BLOCK, VARINT, outer_fields
from importers.source import mapped, sha256

_FIELDS = {(1, BLOCK), (2, VARINT), (3, BLOCK), (7, BLOCK), (11, BLOCK)}
_GRAPH_FIELDS = {(number, BLOCK) for number in (1, 4, 5, 6, 11)}
_NO = Detection(Confidence.NO, "")


class AirImporter:
    """Importer of models in Ascend's IR that no compiler has seen yet."""

    name = "air"
    reads = "Ascend .air"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the outermost protobuf fields, and those of its first graph."""
        fields = outer_fields(head)
        graph = next((field.content for field in fields if field.number == 7), b"")
        inner = {field.kind for field in outer_fields(graph)}
        if not graph or not {field.kind for field in fields} <= _FIELDS:
            return _NO
        if (6, BLOCK) in inner and inner <= _GRAPH_FIELDS:
            return Detection(Confidence.SURE, "a binary message built like a ModelDef of GE")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The model's graph, other graphs as bodies in it."""
        with mapped(path) as buffer:
            graphs, model = read_definition(buffer, path, BinarySpan(0, len(buffer)))
            if not graphs or not graphs[0].nodes:
                raise ImportFormatError(path, "no op in its first graph", offset=0)
            model_graph = assemble(graphs, model, path, sha256(buffer), form="air")
        return replace(model_graph, kind=GraphKind.ORIGINAL)
