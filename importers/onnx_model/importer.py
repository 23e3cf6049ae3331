"""Read ONNX models (``.onnx``), weights left where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, Framework, GraphKind, ModelGraph
from importers.contract import Confidence
from importers.kept import kept_text, some
from importers.source import read_whole, sha256
from importers.wire import BLOCK, VARINT, outer_fields

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
_HINT = "it was cut or damaged; export or copy it again"


class OnnxImporter:
    """Importer of binary ONNX models."""

    name = "onnx"
    reads = "ONNX .onnx"

    def detect(self, path: Path, head: bytes) -> Confidence:
        """By the numbers of the outermost protobuf fields."""
        fields = outer_fields(head)
        kinds = {field.kind for field in fields}
        if not fields or any(_FIELDS.get(number, kind) != kind for number, kind in kinds):
            return Confidence.NO
        known = all(number in _FIELDS for number, _ in kinds)
        producer = next((field.content for field in fields if field.number == 2), b"")
        if not _is_word(producer):
            return Confidence.NO
        if known and (7, BLOCK) in kinds:
            return Confidence.SURE
        if (7, BLOCK) in kinds or (known and (1, VARINT) in kinds):
            return Confidence.MAYBE
        return Confidence.MAYBE if path.suffix == ".onnx" and known else Confidence.NO

    def read(self, path: Path) -> ModelGraph:
        """The model's graph with the bodies of If, Loop and Scan as sub-graphs."""
        from google.protobuf.message import DecodeError
        from onnx import load_model_from_string

        data = read_whole(path)
        try:
            model = load_model_from_string(data, format="protobuf")
        except DecodeError as error:
            raise ImportFormatError(path, f"damaged ONNX model: {error}", hint=_HINT) from error
        digest = sha256(data)
        del data
        if not model.HasField("graph") or not (model.graph.node or model.graph.output):
            raise ImportFormatError(path, "the file holds no ONNX graph", hint=_HINT)
        try:
            return _graph(model, path, digest)
        except ValueError as error:
            raise ImportFormatError(path, f"damaged ONNX model: {error}", hint=_HINT) from error


def _is_word(name: bytes) -> bool:
    return all(byte >= 0x20 for byte in name)


def _graph(model: ModelProto, path: Path, digest: str) -> ModelGraph:
    from importers.onnx_model.checks import check_names
    from importers.onnx_model.shapes import with_shapes
    from importers.onnx_model.values import tensor_of
    from importers.onnx_model.walk import GraphWalk

    check_names(model)
    model, failure = with_shapes(model)
    graph = model.graph
    walk = GraphWalk(graph)
    inputs = [value for value in graph.input if value.name not in walk.constants]
    warnings = [*walk.warnings(), *_left_out(model)]
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


def _left_out(model: ModelProto) -> list[str]:
    told = []
    functions = {(function.domain, function.name) for function in model.functions}
    calls = sum((node.domain, node.op_type) in functions for node in model.graph.node)
    if functions:
        names = sorted(name for _, name in functions)
        what = f"{len(functions)} local functions are kept as single ops"
        told.append(f"{what} ({calls} calls): {some(names)}")
    if model.training_info:
        told.append("training_info is left out")
    return told


def _model_attrs(model: ModelProto) -> dict[str, AttrValue]:
    attrs: dict[str, AttrValue] = {"ir_version": model.ir_version}
    for opset in model.opset_import:
        attrs[f"opset {opset.domain or 'ai.onnx'}"] = opset.version
    if model.producer_name:
        attrs["producer"] = kept_text(f"{model.producer_name} {model.producer_version}".strip())
    for entry in model.metadata_props:
        attrs.setdefault(entry.key, kept_text(entry.value))
    return attrs
