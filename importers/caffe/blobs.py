"""The values of weights that do not lie in their file in one piece: those in protobuf text, and
those written one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphstore.errors import ImportFormatError
from importers.caffe.binary import BLOBS, DATA, DOUBLE_DATA, LAYER, LAYERS, V0, V0_BLOBS, is_binary
from importers.caffe.first_format import is_first, upgraded
from importers.caffe.text import BLOB_VALUES
from importers.proto.literals import real
from importers.proto.text_reader import Buffer, EventKind, TextReader
from importers.proto.values import Fields, message, text
from importers.proto.wire import BLOCK, FieldSpan, spans
from importers.source import mapped

_NAME = {LAYERS: 4, LAYER: 1}
_KINDS: dict[int, np.dtype[Any]] = {DATA: np.dtype("<f4"), DOUBLE_DATA: np.dtype("<f8")}


def blob_values(path: Path) -> dict[str, list[np.ndarray]]:
    """The weights in the net *path*, by the layer's name: flat, in the file's order.

    Raises:
        ImportFormatError: damaged.
    """
    with mapped(path) as buffer:
        try:
            return dict(_binary(buffer) if is_binary(buffer) else _text(buffer, path))
        except ValueError as error:
            raise ImportFormatError(path, f"damaged Caffe net: {error}") from error


def _binary(buffer: Buffer) -> Iterator[tuple[str, list[np.ndarray]]]:
    for layer in spans(buffer):
        if layer.number not in BLOBS or layer.wire_type != BLOCK:
            continue
        name, blobs = _layer(buffer, layer, _NAME[layer.number], BLOBS[layer.number])
        if blobs:
            yield name, blobs


def _layer(
    buffer: Buffer, layer: FieldSpan, named: int, weights: int
) -> tuple[str, list[np.ndarray]]:
    """The name and the weights of a layer, in the fields of these numbers."""
    name, blobs = "", []
    for field in spans(buffer, layer.start, layer.end):
        if field.wire_type != BLOCK:
            continue
        if field.number == named:
            name = bytes(buffer[field.start : field.end]).decode("utf-8", "backslashreplace")
        elif field.number == weights:
            blobs.append(_blob(buffer, field.start, field.end))
        elif layer.number == LAYERS and field.number == V0:
            name, blobs = _layer(buffer, field, 1, V0_BLOBS)
    return name, blobs


def _blob(buffer: Buffer, start: int, end: int) -> np.ndarray:
    kind, content = _KINDS[DATA], bytearray()
    for field in spans(buffer, start, end):
        if field.number in _KINDS and field.wire_type != 0:
            kind = _KINDS[field.number]
            content += buffer[field.start : field.end]
    return np.frombuffer(bytes(content), kind)


def _text(buffer: Buffer, path: Path) -> Iterator[tuple[str, list[np.ndarray]]]:
    for event in TextReader(buffer, path).events():
        if event.kind is not EventKind.FIELD or event.name not in (b"layer", b"layers"):
            continue
        fields = message(event.value)
        if is_first(fields):
            fields = upgraded(fields)
        names = [text(value) for name, value in fields if name == b"name"]
        blobs = [_text_blob(message(value)) for name, value in fields if name == b"blobs"]
        if blobs:
            yield names[-1] if names else "", blobs


def _text_blob(fields: Fields) -> np.ndarray:
    parts = (value for name, value in fields if name in BLOB_VALUES)
    values = [real(value) for value in parts if isinstance(value, bytes)]
    is_double = any(name == b"double_data" for name, _ in fields)
    return np.array(values, np.float64 if is_double else np.float32)
