"""Read a binary Caffe net (``.caffemodel``); the values of its weights stay in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message

from graphstore.errors import ImportFormatError
from graphstore.model import DType
from importers.caffe.net import MAX_DIM, Blob, Layer, Net
from importers.caffe.text import layer_of, net_of
from importers.contract import HEAD_BYTES
from importers.proto.messages import caffe_pb2 as pb
from importers.proto.text_reader import Buffer, outline
from importers.proto.values import Value
from importers.proto.wire import BLOCK, FIXED32, FieldSpan, spans

LAYERS, LAYER = 2, 100
BLOBS = {LAYERS: 6, LAYER: 7}
"""The field of a layer that holds its weights, by the field of the net that holds the layer."""
_V0 = 1  # field of a V1 layer that holds one of Caffe's first format
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
    return net_of(_fields(net), layers)


def _layer(buffer: Buffer, place: FieldSpan) -> Layer:
    """The layer at *place*: its blobs by where they lie, the rest as a message."""
    rest = bytearray()
    blobs: list[Blob] = []
    old = place.number == LAYERS
    for span in spans(buffer, place.start, place.end):
        if span.number == BLOBS[place.number] and span.wire_type == BLOCK:
            blobs.append(_blob(buffer, span))
        elif old and span.number == _V0:
            raise ValueError("a layer in Caffe's first format (V0), which is not read")
        else:
            rest += buffer[span.key : span.end]
    kind: type[Message] = pb.V1LayerParameter if old else pb.LayerParameter
    return layer_of(_fields(kind.FromString(bytes(rest))), old=old, blobs=tuple(blobs))


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
        (field.name.encode(), _value(field, each))
        for field, value in message.ListFields()
        for each in ([value] if isinstance(value, one) else value)
    ]


def _value(field: Any, value: Any) -> Value:
    if isinstance(value, Message):
        return _fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else int(value)
    # protobuf passes on bytes that are not UTF-8
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
