"""Read a binary Caffe net (``.caffemodel``); the values of its weights stay in the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError, Message

from graphstore.errors import ImportFormatError
from graphstore.model import AttrValue, DType
from importers.caffe.net import (
    MAX_DIM,
    Blob,
    Layer,
    Net,
    PhaseRule,
    State,
    input_shapes,
    type_of_old,
)
from importers.kept import kept_list, kept_text
from importers.proto.messages import caffe_pb2 as pb
from importers.proto.text_reader import Buffer
from importers.proto.wire import BLOCK, FIXED32, FieldSpan, spans

_LAYERS, _LAYER = 2, 100
_BLOBS = {_LAYERS: 6, _LAYER: 7}
_V0 = 1  # field of a V1 layer that holds one of Caffe's first format
_DATA, _DIFF, _DOUBLE_DATA, _DOUBLE_DIFF = 5, 6, 8, 9
_VALUES = {_DATA: DType.FLOAT32, _DOUBLE_DATA: DType.FLOAT64}
_OWN = frozenset({"name", "type", "bottom", "top", "include", "exclude"})
_PHASES = {pb.TRAIN: "TRAIN", pb.TEST: "TEST"}
_HINT = "it was cut or damaged; copy it again"


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
            if span.number in _BLOBS and span.wire_type == BLOCK:
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
    shapes = [shape.dim for shape in net.input_shape]
    state = State(_phase(net.state), net.state.level, tuple(net.state.stage))
    return Net(
        _checked(net.name),
        input_shapes([_checked(name) for name in net.input], shapes, net.input_dim),
        tuple(layers),
        state,
    )


def _layer(buffer: Buffer, place: FieldSpan) -> Layer:
    """The layer at *place*: its blobs by where they lie, the rest as a message."""
    rest = bytearray()
    blobs: list[Blob] = []
    old = place.number == _LAYERS
    for span in spans(buffer, place.start, place.end):
        if span.number == _BLOBS[place.number] and span.wire_type == BLOCK:
            blobs.append(_blob(buffer, span))
        elif old and span.number == _V0:
            raise ValueError("a layer in Caffe's first format (V0), which is not read")
        else:
            rest += buffer[span.key : span.end]
    message: Any = (pb.V1LayerParameter if old else pb.LayerParameter).FromString(bytes(rest))
    kind = message.type
    if old:
        kind = type_of_old(pb.V1LayerParameter.LayerType.Name(kind))
    return Layer(
        name=_checked(message.name),
        type=_checked(kind),
        bottoms=tuple(_checked(name) for name in message.bottom),
        tops=tuple(_checked(name) for name in message.top),
        attrs=_attrs(message),
        shapes=tuple(_shapes(message)),
        include=tuple(map(_rule, message.include)),
        exclude=tuple(map(_rule, message.exclude)),
        phase="" if old else _phase(message),
        blobs=tuple(blobs),
    )


def _blob(buffer: Buffer, place: FieldSpan) -> Blob:
    rest = bytearray()
    dtype, offset, nbytes, subgraphs = DType.FLOAT32, None, 0, 0
    for span in spans(buffer, place.start, place.end):
        if span.number in _VALUES and span.wire_type != 0:
            dtype = _VALUES[span.number]
            single = FIXED32 if span.number == _DATA else 1
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


def _phase(message: Any) -> str:
    return _PHASES[message.phase] if message.HasField("phase") else ""


def _rule(rule: pb.NetStateRule) -> PhaseRule:
    return PhaseRule(
        phase=_phase(rule) or None,
        min_level=rule.min_level if rule.HasField("min_level") else None,
        max_level=rule.max_level if rule.HasField("max_level") else None,
        stages=tuple(rule.stage),
        not_stages=tuple(rule.not_stage),
    )


def _shapes(message: Any) -> Iterator[tuple[int, ...]]:
    for name in ("input_param", "dummy_data_param", "reshape_param"):
        if name not in message.DESCRIPTOR.fields_by_name or not message.HasField(name):
            continue
        shape = getattr(message, name).shape
        for each in [shape] if isinstance(shape, pb.BlobShape) else shape:
            yield tuple(each.dim)


def _attrs(message: Message) -> dict[str, AttrValue]:
    found: dict[str, list[AttrValue]] = {}
    for path, value in _scalars(message, ""):
        found.setdefault(path, []).append(value)
    return {path: v[0] if len(v) == 1 else kept_list(v) for path, v in found.items()}


def _scalars(message: Any, prefix: str) -> Iterator[tuple[str, AttrValue]]:
    """All set fields; the schema has no message inside itself, so this ends."""
    for field, value in message.ListFields():
        if not prefix and field.name in _OWN:
            continue
        path = prefix + field.name
        values = [value] if isinstance(value, (Message, str, bytes, int, float)) else value
        for each in values:
            if isinstance(each, Message):
                yield from _scalars(each, f"{path}.")
            elif field.enum_type is not None:
                known = field.enum_type.values_by_number.get(each)
                yield path, known.name if known else int(each)
            else:
                yield path, _kept(each)


def _kept(value: str | bytes | float) -> AttrValue:
    return kept_text(_checked(value)) if isinstance(value, str | bytes) else value


def _checked(name: str | bytes) -> str:
    """*name* as text; protobuf hands bytes through that are no UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
