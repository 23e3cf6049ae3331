"""A part of a Caffe net as a net of its own: ``dump.prototxt`` and ``dump.caffemodel``.

What enters becomes ``Input`` layers, named as the vendor's tool names them. Each tensor gets
a blob of its own: a layer that writes over what it reads would hide the value before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from divergraph.files.os_errors import os_errors_told
from divergraph.submodel.export.contract import PartSource, WrittenPart, another_model, free_name
from divergraph.submodel.selection import BoundaryTensor, Selection
from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph, Op, TensorRef
from importers.caffe.binary import is_binary, read_binary
from importers.caffe.net import Layer, Net
from importers.caffe.text import read_text
from importers.kept import some
from importers.proto.messages import caffe_pb2
from importers.proto.text_reader import Buffer, EventKind, Fields, TextReader
from importers.proto.wire import BLOCK, FieldSpan, spans, varint_bytes
from importers.source import mapped

_WEIGHTED = frozenset(
    (
        *("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", "Deconvolution"),
        *("InnerProduct", "BatchNorm", "Scale", "PReLU", "Embed", "LSTM", "RNN"),
    )
)
_ESCAPED = {ord("\\"): "\\\\", ord('"'): '\\"', ord("\n"): "\\n", ord("\r"): "\\r"}


def write_caffe_part(source: PartSource, part: Selection, folder: Path) -> WrittenPart:
    """Write ``dump.prototxt`` and ``dump.caffemodel``."""
    return _Part(source, part).written(folder)


class _Part:
    def __init__(self, source: PartSource, part: Selection) -> None:
        self._source = source
        self._part = part
        self._ops = source.graph.op_index()
        layers = raw_layers(source.model, source.graph)
        self._layers: Mapping[str, RawLayer] = {
            op.id: layer for op, layer in zip(source.graph.ops, layers, strict=True)
        }
        self._taken: set[str] = set()
        self._blobs: dict[TensorRef | str, str] = {}
        self._names: dict[str, str] = {}
        self._notes: list[str] = []

    def written(self, folder: Path) -> WrittenPart:
        ops = [self._ops[op] for op in self._part.ops]
        self._name_blobs(ops)
        inputs = list(self._inputs())
        layers = [self._layer(op) for op in ops]
        net, weights = folder / "dump.prototxt", folder / "dump.caffemodel"
        head = f"name: {_quoted(self._source.graph.name)}\n"
        text = head + "".join((*inputs, *layers))
        net.write_text(text, encoding="utf-8", errors="backslashreplace")
        with weights.open("wb") as out:
            out.write(_field(1, self._source.graph.name.encode("utf-8", "backslashreplace")))
            for op, blobs in self._weights(ops):
                out.write(_field(LAYERS, self._weighted(op, blobs)))
        added = tuple(f"Add Layer Into Prototxt:\n{_inner(text)}" for text in inputs)
        return WrittenPart((net, weights), self._names, tuple(self._notes), added)

    # blobs

    def _name_blobs(self, ops: list[Op]) -> None:
        """A blob for each tensor: that of the file, or called as its layer where others write
        over it."""
        for tensor in self._part.inputs:
            self._name_blob(tensor.key, tensor.name, tensor.name.partition("@")[0])
        rewritten = 0
        for op in ops:
            layer = self._layers[op.id].layer
            in_place = {*layer.bottoms} & {*layer.tops}
            rewritten += bool(in_place)
            for port, output in enumerate(op.outputs):
                top = layer.tops[port]
                shared = top in in_place or output.name != top
                wanted = top if not shared else f"{op.name}_{port}" if port else op.name
                self._name_blob(TensorRef(op.id, port), output.name, wanted)
        if rewritten:
            self._notes.append(
                f"{rewritten} layers that wrote over what they read write blobs of their own"
            )

    def _name_blob(self, key: TensorRef | str, name: str, wanted: str) -> None:
        blob = free_name(wanted, self._taken)
        self._taken.add(blob)
        self._blobs[key] = blob
        self._names[name] = blob

    # layers

    def _inputs(self) -> Iterator[str]:
        counts: dict[str, int] = {}
        for tensor in self._part.inputs:
            user = self._ops[tensor.users[0]].name
            number = counts.get(user, 0)
            counts[user] = number + 1
            yield self._input(f"{user}_input_{number}", tensor)

    def _input(self, name: str, tensor: BoundaryTensor) -> str:
        dims = "".join(f"      dim: {size}\n" for size in tensor.shape or () if size is not None)
        if tensor.shape is None or None in tensor.shape:
            raise InputError(f"the shape of {tensor.name} is not known, which Caffe needs")
        blob = self._blobs[tensor.key]
        return (
            f'layer {{\n  name: {_quoted(name)}\n  type: "Input"\n  top: {_quoted(blob)}\n'
            f"  input_param {{\n    shape {{\n{dims}    }}\n  }}\n}}\n"
        )

    def _layer(self, op: Op) -> str:
        raw = self._layers[op.id]
        lines = [f"  name: {_quoted(op.name)}\n", f"  type: {_quoted(op.type)}\n"]
        for bottom, ref in zip(raw.layer.bottoms, op.inputs, strict=False):
            key: TensorRef | str = "" if ref is None else ref.producer or ref.tensor
            if key not in self._blobs:
                raise InputError(f"{op.id} takes {bottom}, which no layer of the net makes")
            lines.append(f"  bottom: {_quoted(self._blobs[key])}\n")
        tops = (self._blobs[TensorRef(op.id, port)] for port in range(len(raw.layer.tops)))
        lines += (f"  top: {_quoted(blob)}\n" for blob in tops)
        return f"layer {{\n{''.join(lines)}{raw.text}}}\n"

    # weights

    def _weights(self, ops: list[Op]) -> Iterator[tuple[Op, list[bytes]]]:
        path = self._weights_file()
        blobs: Mapping[str, list[bytes]] = {}
        if path is not None:
            with os_errors_told("the weights cannot be read", path), mapped(path) as buffer:
                blobs = blobs_by_layer(buffer, path)
        bare = [op.name for op in ops if self._needs_weights(op) and op.name not in blobs]
        if bare:
            raise InputError(
                f"{len(bare)} layers have no weights: {some(bare)}",
                where="" if path is None else str(path),
                hint="--weights FILE.caffemodel says where they are",
            )
        for op in ops:  # those without weights too, as Caffe itself saves nets
            yield op, blobs.get(op.name, [])

    def _needs_weights(self, op: Op) -> bool:
        scales_by_another = op.type == "Scale" and len(self._layers[op.id].layer.bottoms) > 1
        return op.type in _WEIGHTED and not scales_by_another

    def _weights_file(self) -> Path | None:
        if self._source.weights is not None:
            return self._source.weights
        model = self._source.model
        for constant in self._source.graph.constants:
            if constant.location and (model.parent / constant.location).is_file():
                return model.parent / constant.location
        path = model.with_suffix(".caffemodel")
        return path if path.is_file() else None

    def _weighted(self, op: Op, blobs: list[bytes]) -> bytes:
        head = [(1, op.name), (2, op.type)]
        fields = [_field(number, text.encode("utf-8", "backslashreplace")) for number, text in head]
        return b"".join((*fields, *(_field(BLOBS, blob) for blob in blobs)))


def _field(number: int, content: bytes) -> bytes:
    return varint_bytes(number << 3 | BLOCK) + varint_bytes(len(content)) + content


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'


def _inner(layer: str) -> str:
    """A layer's fields as the vendor's log shows them, without the block around."""
    return "\n".join(line.removeprefix("  ") for line in layer.splitlines()[1:-1])


V1_LAYERS, LAYERS = 2, 100
V1_BLOBS, BLOBS = 6, 7
_V1_NAME, _NAME = 4, 1
_LINKS = ("name", "type", "bottom", "top", "include", "exclude", "phase", "blobs")
_V1_ONLY = ("blobs_lr", "weight_decay", "param", "blob_share_mode", "layer")


@dataclass(frozen=True, slots=True)
class RawLayer:
    """A layer; ``text`` are its parameters in protobuf text, two spaces in."""

    layer: Layer
    text: str


def raw_layers(path: Path, graph: ModelGraph) -> tuple[RawLayer, ...]:
    """The layers in the file *path* that *graph* was read from, in the order of its ops.

    Raises:
        ImportFormatError: damaged.
        InputError: it is another net.
    """
    with mapped(path) as buffer:
        if is_binary(buffer):
            net = read_binary(buffer, path)
            texts = list(_binary_texts(buffer))
        else:
            net = read_text(buffer, path)
            texts = list(_texts(buffer, path))
    text_of = {id(layer): text for layer, text in zip(net.layers, texts, strict=True)}
    for chosen in _nets(net, graph):
        if [layer.type for layer in chosen.layers] == [op.type for op in graph.ops] and all(
            layer.name in ("", op.name) for layer, op in zip(chosen.layers, graph.ops, strict=True)
        ):
            return tuple(RawLayer(layer, text_of[id(layer)]) for layer in chosen.layers)
    raise another_model(path)


def blobs_by_layer(buffer: Buffer, path: Path) -> dict[str, list[bytes]]:
    """The weights in a ``.caffemodel`` by layer, each as the message it is there.

    Raises:
        ImportFormatError: damaged, or no binary net.
    """
    if not is_binary(buffer):
        raise ImportFormatError(path, "no binary Caffe net", hint="give the .caffemodel")
    blobs_of: dict[str, list[bytes]] = {}
    try:
        for place in _layer_places(buffer):
            name, blobs = _blobs(buffer, place)
            if blobs:
                blobs_of[name] = blobs
    except ValueError as error:
        raise ImportFormatError(path, f"damaged Caffe net: {error}") from error
    return blobs_of


def _layer_places(buffer: Buffer) -> Iterator[FieldSpan]:
    layers = (V1_LAYERS, LAYERS)
    return (span for span in spans(buffer) if span.number in layers and span.wire_type == BLOCK)


def _blobs(buffer: Buffer, place: FieldSpan) -> tuple[str, list[bytes]]:
    old = place.number == V1_LAYERS
    name, blobs = "", []
    for field in spans(buffer, place.start, place.end):
        if field.number == (_V1_NAME if old else _NAME) and field.wire_type == BLOCK:
            name = bytes(buffer[field.start : field.end]).decode("utf-8", "backslashreplace")
        elif field.number == (V1_BLOBS if old else BLOBS) and field.wire_type == BLOCK:
            blobs.append(bytes(buffer[field.start : field.end]))
    return name, blobs


def _nets(net: Net, graph: ModelGraph) -> Iterator[Net]:
    """The net in the phase the graph was read in, then in those it may have been."""
    phase = str(graph.attrs.get("phase", "TEST"))
    yield net.in_phase(phase)
    stages = {stage for layer in net.layers for rule in layer.include for stage in rule.stages}
    for stage in sorted(stages):
        yield net.in_phase(phase, [stage])
    yield net.in_phase(phase, sorted(stages))


def _texts(buffer: Buffer, path: Path) -> Iterator[str]:
    for event in TextReader(buffer, path).events():
        if event.kind is EventKind.FIELD and event.name in (b"layer", b"layers"):
            left_out = _LINKS + (_V1_ONLY if event.name == b"layers" else ())
            assert not isinstance(event.value, bytes)
            fields = [field for field in event.value if field[0].decode() not in left_out]
            yield "".join(_lines(fields, 1))


def _lines(fields: Fields, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, value in fields:
        key = name.decode("ascii", "backslashreplace")
        if isinstance(value, bytes):
            yield f"{indent}{key}: {value.decode('utf-8', 'backslashreplace')}\n"
        else:
            yield f"{indent}{key} {{\n"
            yield from _lines(value, depth + 1)
            yield f"{indent}}}\n"


def _binary_texts(buffer: Buffer) -> Iterator[str]:
    for place in _layer_places(buffer):
        old = place.number == V1_LAYERS
        rest = b"".join(
            bytes(buffer[field.key : field.end])
            for field in spans(buffer, place.start, place.end)
            if field.number != (V1_BLOBS if old else BLOBS)
        )
        kind = caffe_pb2.V1LayerParameter if old else caffe_pb2.LayerParameter
        try:
            message: Any = kind.FromString(rest)
        except DecodeError as error:
            raise InputError(f"a layer of the net cannot be read: {error}") from error
        for name in _LINKS + (_V1_ONLY if old else ()):
            if name in message.DESCRIPTOR.fields_by_name:
                message.ClearField(name)
        text = text_format.MessageToString(message, as_utf8=True)
        yield "".join(f"  {line}\n" for line in text.splitlines())
