"""Read what TensorRT's engine inspector says of an engine: ``trtexec --exportLayerInfo``.

A layer has a name, a type, tensors with dimensions and a phrase for type and layout, and (since
8.6) the ONNX nodes it was made of in ``Metadata``; before, its name is theirs with `` + `` between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphstore.errors import ImportFormatError
from graphstore.model import (
    AttrValue,
    DType,
    Framework,
    GraphKind,
    InputRef,
    ModelGraph,
    Op,
    Shape,
    Tensor,
    TensorRef,
)
from importers.contract import Confidence, Detection
from importers.kept import kept_list, kept_text, told_of
from importers.names import UniqueIds
from importers.nesting import json_fault
from importers.source import mapped, sha256

_MAX_BYTES = 1 << 28
_START = re.compile(rb'\s*\{\s*"(?:Layers|Bindings)"\s*:\s*\[')
_LAYER = re.compile(rb'"LayerType"\s*:')
_ONNX_NODE = re.compile(r"\[ONNX Layer: ([^\]]*)\]")
_JOINT = " + "
_MOVES = frozenset({"Reformat", "NoOp"})
"""Layers the builder puts in to have values in another layout or type."""

_TYPES = (
    (re.compile(r"\b(?:FP32|Float)\b", re.I), DType.FLOAT32),
    (re.compile(r"\b(?:FP16|Half)\b", re.I), DType.FLOAT16),
    (re.compile(r"\b(?:BF16|BFloat16)\b", re.I), DType.BFLOAT16),
    (re.compile(r"\b(?:FP8|FP8 E4M3)\b", re.I), DType.FLOAT8_E4M3FN),
    (re.compile(r"\bInt8\b", re.I), DType.INT8),
    (re.compile(r"\bUInt8\b", re.I), DType.UINT8),
    (re.compile(r"\bInt32\b", re.I), DType.INT32),
    (re.compile(r"\bInt64\b", re.I), DType.INT64),
    (re.compile(r"\bBool\b", re.I), DType.BOOL),
)
_HINT = "build or load with --profilingVerbosity=detailed, then export the layers again"
_OWN = frozenset({"Name", "LayerType", "Inputs", "Outputs", "Metadata"})


class TensorRtImporter:
    """Importer of the layers of an engine, as a device's graph."""

    name = "tensorrt"
    reads = "TensorRT layer information (trtexec --exportLayerInfo)"

    def detect(self, path: Path, head: bytes) -> Detection:
        """By its first key, and layers with a type."""
        if not _START.match(head.removeprefix(b"\xef\xbb\xbf")):
            return Detection(Confidence.NO, "")
        if _LAYER.search(head):
            return Detection(Confidence.SURE, "JSON of layers with their LayerType")
        return Detection(Confidence.MAYBE, 'JSON with "Layers" or "Bindings"')

    def read(self, path: Path) -> ModelGraph:
        """The engine's layers; an edge is a tensor of one name."""
        content, digest = _content(path)
        layers = content.get("Layers")
        if not isinstance(layers, list) or not layers:
            raise ImportFormatError(path, "it lists no layers", hint=_HINT)
        if not all(isinstance(layer, dict) for layer in layers):
            raise ImportFormatError(path, "it has the layers' names alone", hint=_HINT)
        try:
            return _Engine(layers, content).graph(path, digest)
        except ValueError as error:
            raise ImportFormatError(path, str(error)) from error


def _content(path: Path) -> tuple[dict[str, Any], str]:
    with mapped(path) as buffer:
        if len(buffer) > _MAX_BYTES:
            raise ImportFormatError(path, f"larger than {_MAX_BYTES >> 20} MiB")
        digest, data = sha256(buffer), buffer[:]
    try:
        content = json.loads(data.decode("utf-8-sig", "replace"))
    except json.JSONDecodeError as error:
        raise ImportFormatError(
            path, f"no JSON: {json_fault(error)}", line=error.lineno, column=error.colno
        ) from error
    except (ValueError, RecursionError) as error:
        raise ImportFormatError(path, f"no JSON we can read: {json_fault(error)}") from error
    return (content if isinstance(content, dict) else {}), digest


class _Engine:
    def __init__(self, layers: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> None:
        self._layers = layers
        self._bindings = [_binding(binding) for binding in _list(content.get("Bindings"))]
        self._ids = UniqueIds()
        self._made: dict[str, TensorRef] = {}
        self._inputs: dict[str, Tensor] = {}
        self._named = [(self._ids.take(_text(layer.get("Name"))), layer) for layer in layers]

    def graph(self, path: Path, digest: str) -> ModelGraph:
        """The graph; *digest* is of the file at *path*."""
        for op, layer in self._named:
            for port, tensor in enumerate(_tensors(layer, "Outputs")):
                self._made.setdefault(tensor.name, TensorRef(op, port))
        ops = tuple(self._op(number, *named) for number, named in enumerate(self._named))
        outputs = [self._made[name] for name in self._bindings if name in self._made]
        unnamed = [op.name for op in ops if op.original_names is None]
        warnings = told_of(
            unnamed, "{layer says|layers say} nothing of the nodes they were made of"
        )
        return ModelGraph(
            name=path.stem,
            kind=GraphKind.DEVICE,
            framework=Framework.TENSORRT,
            format="tensorrt",
            ops=ops,
            inputs=tuple(self._inputs.values()),
            outputs=tuple(outputs),
            warnings=(*warnings, *self._ids.warnings()),
            source=str(path),
            sha256=digest,
        )

    def _op(self, number: int, op: str, layer: Mapping[str, Any]) -> Op:
        inputs: list[InputRef | None] = []
        for tensor in _tensors(layer, "Inputs"):
            producer = self._made.get(tensor.name)
            if producer is None:
                self._inputs.setdefault(tensor.name, tensor)
            inputs.append(InputRef(tensor.name, producer))
        return Op(
            id=op,
            name=_text(layer.get("Name")),
            type=_text(layer.get("ParameterType") or layer.get("LayerType") or "Layer"),
            inputs=tuple(inputs),
            outputs=tuple(_tensors(layer, "Outputs")),
            attrs=dict(_attrs(layer)),
            original_names=_originals(layer),
            sequence=number,
        )


def _originals(layer: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The nodes a layer was made of: empty for one the builder put in, None where it is silent."""
    originals = tuple(dict.fromkeys(_ONNX_NODE.findall(str(layer.get("Metadata") or ""))))
    if originals:
        return originals
    if layer.get("LayerType") in _MOVES or layer.get("ParameterType") in _MOVES:
        return ()
    name = _text(layer.get("Name"))
    if "Metadata" in layer or name.startswith(("__my", "{")):
        return None
    return tuple(part.strip() for part in name.split(_JOINT))


def _tensors(layer: Mapping[str, Any], side: str) -> Iterator[Tensor]:
    for entry in _list(layer.get(side)):
        if not isinstance(entry, dict):
            raise ValueError(f"{side} of {_text(layer.get('Name'))!r} are no tensors")  # noqa: TRY004
        form = str(entry.get("Format/Datatype") or entry.get("Format") or "")
        yield Tensor(_text(entry.get("Name")), _dtype(form), _shape(entry.get("Dimensions")))


def _dtype(form: str) -> DType | None:
    return next((dtype for pattern, dtype in _TYPES if pattern.search(form)), None)


def _shape(sizes: Any) -> Shape | None:
    if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
        return None
    return tuple(None if size < 0 else size for size in sizes)


def _attrs(layer: Mapping[str, Any]) -> Iterator[tuple[str, AttrValue]]:
    for key, value in layer.items():
        if key in _OWN:
            continue
        if isinstance(value, bool | int | float):
            yield key, value
        elif isinstance(value, list) and all(isinstance(v, bool | int | float) for v in value):
            yield key, kept_list(value)
        else:
            yield key, kept_text(value if isinstance(value, str) else json.dumps(value))
    for tensor in _list(layer.get("Outputs"))[:1]:
        if isinstance(tensor, dict) and isinstance(tensor.get("Format/Datatype"), str):
            yield "output format", kept_text(tensor["Format/Datatype"])


def _binding(value: Any) -> str:
    return _text(value.get("Name")) if isinstance(value, dict) else _text(value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
