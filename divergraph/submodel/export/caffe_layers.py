"""The layers of a Caffe net as its file writes them: parameters as text, weights by place.

V1 layers are given as those of today: the same parameters, the type in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph
from importers.caffe.binary import read_binary
from importers.caffe.net import Layer, Net
from importers.caffe.text import read_text
from importers.contract import HEAD_BYTES
from importers.proto.messages import caffe_pb2
from importers.proto.text_reader import Buffer, EventKind, Fields, TextReader, outline
from importers.proto.wire import BLOCK, FieldSpan, spans
from importers.source import mapped

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
        if _is_binary(buffer):
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
    raise InputError(
        "the model file is not the one the run was made with",
        where=str(path),
        hint="give that file with --model",
    )


def blobs_by_layer(buffer: Buffer, path: Path) -> dict[str, list[bytes]]:
    """The weights in a ``.caffemodel`` by layer, each as the message it is there.

    Raises:
        ImportFormatError: damaged, or no binary net.
    """
    if not _is_binary(buffer):
        raise ImportFormatError(path, "no binary Caffe net", hint="give the .caffemodel")
    found: dict[str, list[bytes]] = {}
    try:
        for place in spans(buffer):
            if place.number in (V1_LAYERS, LAYERS) and place.wire_type == BLOCK:
                name, blobs = _blobs(buffer, place)
                if blobs:
                    found[name] = blobs
    except ValueError as error:
        raise ImportFormatError(path, f"damaged Caffe net: {error}") from error
    return found


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


def _is_binary(buffer: Buffer) -> bool:
    head = bytes(buffer[:HEAD_BYTES])
    return b"\x00" in head or not outline(head)


def _texts(buffer: Buffer, path: Path) -> Iterator[str]:
    for event in TextReader(buffer, path).events():
        if event.kind is EventKind.FIELD and event.name in (b"layer", b"layers"):
            left_out = _LINKS + (_V1_ONLY if event.name == b"layers" else ())
            assert not isinstance(event.value, bytes)
            kept = [field for field in event.value if field[0].decode() not in left_out]
            yield "".join(_lines(kept, 1))


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
    for place in spans(buffer):
        if place.number not in (V1_LAYERS, LAYERS) or place.wire_type != BLOCK:
            continue
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
