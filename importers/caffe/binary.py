"""Read a binary Caffe net (``.caffemodel``); the values of its weights stay in the file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.caffe.first_format import BINARY
from importers.caffe.net import MAX_DIM, Blob, Layer, Net
from importers.caffe.text import layer_of, net_of
from importers.contract import HEAD_BYTES
from importers.proto.messages import caffe_pb2 as pb
from importers.proto.text_reader import Buffer, outline
from importers.proto.values import Value
from importers.proto.wire import BLOCK, FIXED32, VARINT, FieldSpan, spans

LAYERS, LAYER = 2, 100
BLOBS = {LAYERS: 6, LAYER: 7}
"""The field of a layer that holds its weights, by the field of the net that holds the layer."""
V0, V0_BLOBS = 1, 50
"""The field of a V1 layer that holds one of Caffe's first format, and that one's weights."""
DATA, _DIFF, DOUBLE_DATA, _DOUBLE_DIFF = 5, 6, 8, 9
_VALUES = {DATA: DType.FLOAT32, DOUBLE_DATA: DType.FLOAT64}
_HINT = "it was cut or damaged; copy it again"


def is_binary(buffer: Buffer) -> bool:
    """Whether a net is in Caffe's binary form, not in text."""
    head = bytes(buffer[:HEAD_BYTES])
    return b"\x00" in head or not outline(head)


def read_binary(buffer: Buffer, path: Path) -> Net:
    """The net in *buffer*, the content of *path*.

    Raises:
        ImportFormatError: damaged, or without a layer.
    """
    around = bytearray()
    layers: list[Layer] = []
    at = 0
    try:
        for span in spans(buffer):
            at = span.key
            if span.number in BLOBS and span.wire_type == BLOCK:
                layers.append(_layer(buffer, span))
            else:
                around += buffer[span.key : span.end]
        net = pb.NetParameter.FromString(bytes(around))
    except (DecodeError, ValueError) as error:
        raise ImportFormatError(
            path, f"damaged Caffe net: {error}", offset=at, hint=_HINT
        ) from error
    if not layers:
        raise ImportFormatError(path, "the net has no layers", hint=_HINT)
    try:
        return net_of(_fields(net), layers)
    except ValueError as error:
        raise ImportFormatError(path, str(error)) from error


def _layer(buffer: Buffer, place: FieldSpan) -> Layer:
    """The layer at *place*: its blobs by where they lie, the rest as a message."""
    rest = bytearray()
    blobs: list[Blob] = []
    settings: list[tuple[bytes, Value]] = []
    old = place.number == LAYERS
    for span in spans(buffer, place.start, place.end):
        if span.number == BLOBS[place.number] and span.wire_type == BLOCK:
            blobs.append(_blob(buffer, span))
        elif old and span.number == V0:
            settings.append((b"layer", _first(buffer, span, blobs)))
        else:
            rest += buffer[span.key : span.end]
    kind: type[Message] = pb.V1LayerParameter if old else pb.LayerParameter
    fields = [*settings, *_fields(kind.FromString(bytes(rest)))]
    return layer_of(fields, old=old, blobs=tuple(blobs))


def _first(buffer: Buffer, place: FieldSpan, blobs: list[Blob]) -> list[tuple[bytes, Value]]:
    """The settings of a layer of the first format; its weights go to *blobs*."""
    fields: list[tuple[bytes, Value]] = []
    for span in spans(buffer, place.start, place.end):
        if span.number == V0_BLOBS and span.wire_type == BLOCK:
            blobs.append(_blob(buffer, span))
        elif span.number in BINARY:
            name, kind = BINARY[span.number]
            fields.append((name, _scalar(buffer, span, kind)))
    return fields


def _scalar(buffer: Buffer, span: FieldSpan, kind: str) -> Value:
    if span.wire_type != {"text": BLOCK, "real": FIXED32}.get(kind, VARINT):
        raise ValueError(f"field {span.number} of a V0 layer is no {kind}")
    content = bytes(buffer[span.start : span.end])
    if kind == "text":
        return content.decode("utf-8", "backslashreplace")
    if kind == "real":
        (number,) = struct.unpack("<f", content)
        return float(number)
    return bool(span.value) if kind == "flag" else span.value


def _blob(buffer: Buffer, place: FieldSpan) -> Blob:
    rest = bytearray()
    dtype, offset, nbytes, subgraphs = DType.FLOAT32, None, 0, 0
    for span in spans(buffer, place.start, place.end):
        if span.number in _VALUES and span.wire_type != 0:
            dtype = _VALUES[span.number]
            single = FIXED32 if span.number == DATA else 1
            # Values may be written one by one, then each has a key of its own in between.
            offset = span.start if subgraphs == 0 and span.wire_type == BLOCK else None
            subgraphs += 1
            nbytes += span.end - span.start if span.wire_type in (BLOCK, single) else 0
        elif span.number not in (_DIFF, _DOUBLE_DIFF):
            rest += buffer[span.key : span.end]
    message = pb.BlobProto.FromString(bytes(rest))
    dims = list(message.shape.dim)
    if not message.HasField("shape"):
        dims = [message.num, message.channels, message.height, message.width]
    if any(not 0 <= dim <= MAX_DIM for dim in dims):
        raise ValueError("a blob with a negative dimension")
    return Blob(tuple(dims), dtype, offset, nbytes)


def _fields(message: Message) -> list[tuple[bytes, Value]]:
    """All set fields, as those of a text; the schema has no message inside itself."""
    one = (Message, str, bytes, int, float)
    return [
        (field.name.encode(), _value(field, element))
        for field, value in message.ListFields()
        for element in ([value] if isinstance(value, one) else value)
    ]


def _value(field: Any, value: Any) -> Value:
    if isinstance(value, Message):
        return _fields(value)
    if field.enum_type is not None:
        enum_value = field.enum_type.values_by_number.get(value)
        return enum_value.name if enum_value else int(value)
    # protobuf passes on bytes that are not UTF-8
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
