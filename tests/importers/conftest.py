"""Messages of GE as protobuf knows them: the oracle of the readers' tests, and what they read."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from importers.registry import read_graph


@pytest.fixture(scope="session")
def ge_model() -> Any:
    """The message class ``ModelDef``."""
    text = (Path(__file__).parent / "ge_ir.txtpb").read_text(encoding="utf-8")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(text, descriptor_pb2.FileDescriptorProto()))
    found = pool.FindMessageTypeByName("divergraph.test.ge.ModelDef")
    return message_factory.GetMessageClass(found)


OmMaker = Callable[..., bytes]


@pytest.fixture(scope="session")
def om_bytes() -> OmMaker:
    """Writes an offline model of the given models: their partitions as (type, bytes)."""
    return make_om


def make_om(
    *models: Sequence[tuple[int, bytes]],
    wide: bool = False,
    version: int = 0x20000000,
    model_type: int = 0,
    encrypted: bool = False,
) -> bytes:
    body = b"".join(_model(partitions, wide) for partitions in models)
    header = bytearray(256)
    struct.pack_into("<4sII", header, 0, b"IMOD", 256, version)
    struct.pack_into("<I", header, 76, 0 if wide else len(body))
    header[80] = encrypted
    header[82] = model_type
    header[84:88] = b"made"
    if version < 0x20000000:
        header[156:160] = b"1.11"
    else:
        struct.pack_into("<I", header, 156, len(models) if len(models) > 1 else 0)
        header[160:164] = b"1.11"
        struct.pack_into("<Q", header, 184, len(body) if wide else 0)
    return bytes(header) + body


def _model(partitions: Sequence[tuple[int, bytes]], wide: bool) -> bytes:
    table = struct.pack("<I4x" if wide else "<I", len(partitions))
    offset = 0
    for kind, data in partitions:
        table += struct.pack("<I4xQQ" if wide else "<III", kind, offset, len(data))
        offset += len(data)
    return table + b"".join(data for _, data in partitions)


@pytest.fixture(scope="session")
def atc_json() -> Callable[[Any], str]:
    """Writes a message as the offline converter does: maps as lists of key and value."""
    return lambda message: json.dumps(_plain(message))


def _plain(message: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            plain[field.name] = [
                {"key": key, "value": _plain(entry) or None} for key, entry in value.items()
            ]
        elif field.is_repeated:
            plain[field.name] = [_scalar(field, each) for each in value]
        else:
            plain[field.name] = _scalar(field, value)
    return plain


def _scalar(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value.decode() if isinstance(value, bytes) else value


@pytest.fixture
def om(tmp_path, om_bytes):
    """Writes an offline model of the given models and partitions."""

    def write(*models, **options):
        path = tmp_path / "model.om"
        path.write_bytes(om_bytes(*models, **options))
        return path

    return write


@pytest.fixture
def read_onnx(tmp_path):
    """The graph read of a file with an ONNX model, or with the given bytes."""

    def read(model, name="model.onnx"):
        path = tmp_path / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return read_graph(path)

    return read


@pytest.fixture
def onnx_graph(read_onnx):
    """The graph read of an ONNX model of the given nodes, inputs, outputs and initializers."""
    from onnx import helper

    def read(nodes, inputs=(), outputs=(), initializers=(), **model):
        graph = helper.make_graph(nodes, "net", inputs, outputs, initializers)
        return read_onnx(helper.make_model(graph, **model))

    return read
