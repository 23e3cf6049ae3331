"""Read ONNX models (``.onnx``), weights left where they are."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, Framework, GraphKind, ModelGraph
from importers.contract import Confidence, Detection
from importers.kept import kept_text
from importers.proto.text_reader import outline
from importers.proto.wire import BLOCK, VARINT, outer_fields
from importers.source import read_head

if TYPE_CHECKING:
    from onnx import ModelProto

# Source: onnx.proto, message ModelProto.
_FIELDS = {
    1: VARINT,  # ir_version
    2: BLOCK,  # producer_name
    3: BLOCK,
    4: BLOCK,
    5: VARINT,
    6: BLOCK,
    7: BLOCK,  # graph
    8: BLOCK,  # opset_import
    14: BLOCK,
    20: BLOCK,
    25: BLOCK,
    26: BLOCK,
}
_SYNTAX = re.compile(rb"\s*<\s*(?:ir_version|opset_import)\s*:")
_JSON = re.compile(rb'"(?:irVersion|ir_version|opsetImport|opset_import)"\s*:')
_NO = Detection(Confidence.NO, "")
_HINT = "it was cut or damaged; export or copy it again"


class Form(Enum):
    """How a model is written."""

    BINARY = "a binary ONNX model"
    TEXT = "an ONNX model as protobuf text"
    JSON = "an ONNX model as JSON"
    SYNTAX = "an ONNX model in ONNX text syntax"


class OnnxImporter:
    """Importer of ONNX models: binary, protobuf text, JSON and ONNX text."""

    name = "onnx"
    reads = "ONNX .onnx"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By the numbers of the outermost protobuf fields, or the names in a text."""
        fields = outer_fields(head)
        kinds = {field.kind for field in fields}
        if not fields or any(_FIELDS.get(number, kind) != kind for number, kind in kinds):
            form = _text_form(head)
            return _NO if form is None else Detection(Confidence.SURE, form.value)
        is_model = all(number in _FIELDS for number, _ in kinds)
        producer = next((field.content for field in fields if field.number == 2), b"")
        if any(byte < 0x20 for byte in producer):
            return _NO
        if is_model and (7, BLOCK) in kinds:
            return Detection(Confidence.SURE, "a binary message with the fields of an ONNX model")
        if (7, BLOCK) in kinds or (is_model and (1, VARINT) in kinds):
            return Detection(Confidence.MAYBE, "a binary message that may be an ONNX model")
        if path.suffix == ".onnx" and is_model:
            return Detection(Confidence.MAYBE, "a file called .onnx")
        return _NO

    def read(self, path: Path) -> ModelGraph:
        """The model's graph; bodies of If, Loop and Scan and called functions as sub-graphs."""
        from importers.onnx_model.reading import load_model

        model, digest = load_model(path, form_of(path))
        if not model.HasField("graph") or not model.graph.ByteSize():
            raise ImportFormatError(path, "the file holds no ONNX graph", hint=_HINT)
        try:
            return _graph(model, path, digest)
        except ValueError as error:
            raise ImportFormatError(path, f"damaged ONNX model: {error}", hint=_HINT) from error


def form_of(path: Path) -> Form:
    """How the model in *path* is written, binary if it is no form of text."""
    return _text_form(read_head(path)) or Form.BINARY


def _text_form(head: bytes) -> Form | None:
    """The form of a text model that starts with *head*; None for anything else."""
    if _SYNTAX.match(head):
        return Form.SYNTAX
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return Form.JSON if _JSON.search(head) and b'"graph"' in head else None
    names = outline(head)
    if (b"producer_name", b'"GE"') in names or b'op_type: "ge:' in head:
        return None  # GE writes graphs of its own in a form like this
    if (b"ir_version",) in names or (b"opset_import",) in names:
        return Form.TEXT
    return Form.TEXT if (b"graph", b"node") in names else None


def _graph(model: ModelProto, path: Path, digest: str) -> ModelGraph:
    from importers.onnx_model.checks import all_tensors, check_external, check_names, with_shapes
    from importers.onnx_model.values import constant, tensor_of
    from importers.onnx_model.walk import GraphWalk

    check_names(model)
    outside = (tensor for tensor in all_tensors(model) if tensor.data_location == tensor.EXTERNAL)
    notes = check_external(path, (constant(tensor, tensor.name) for tensor in outside))
    model, failure = with_shapes(model)
    graph = model.graph
    walk = GraphWalk(model)
    inputs = [value for value in graph.input if value.name not in walk.constants]
    warnings = [*walk.warnings(), *notes]
    if model.training_info:
        warnings.append("training_info is left out")
    if not graph.node:
        warnings.append("the graph has no nodes")
    return ModelGraph(
        name=graph.name or path.stem,
        kind=GraphKind.ORIGINAL,
        framework=Framework.ONNX,
        format="onnx",
        ops=tuple(walk.ops),
        subgraphs=tuple(walk.subgraphs),
        inputs=tuple(tensor_of(value.name, value.type) for value in inputs),
        outputs=tuple(walk.outputs),
        constants=tuple(walk.constants.values()),
        attrs=_model_attrs(model),
        warnings=(*warnings, failure) if failure else tuple(warnings),
        source=str(path),
        sha256=digest,
    )


def _model_attrs(model: ModelProto) -> dict[str, AttrValue]:
    attrs: dict[str, AttrValue] = {"ir_version": model.ir_version}
    for opset in model.opset_import:
        attrs[f"opset {opset.domain or 'ai.onnx'}"] = opset.version
    if model.producer_name:
        attrs["producer"] = kept_text(f"{model.producer_name} {model.producer_version}".strip())
    for entry in model.metadata_props:
        attrs.setdefault(entry.key, kept_text(entry.value))
    return attrs
