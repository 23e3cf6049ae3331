"""The outside of an offline model (``.om``): its header and its tables of partitions.

Source: GE's inc/framework/common/framework_types_internal.h (``ModelFileHeader``,
``ModelPartitionTable``) and base/common/helper/om_file_helper.cc.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from graphstore.errors import ImportFormatError
from importers.proto.text_reader import Buffer
from importers.proto.values import BinarySpan, Fields, Value, message, text, truth, whole

MAGIC = b"IMOD"
HEADER_BYTES = 256
_TWO = 0x20000000
"""From this header version on the file says how many models it holds."""

_MAX_MODELS = 64
_MAX_PARTITIONS = 64
MODEL_DEF, WEIGHTS = 0, 1
_NAMES = """
    0 model definition, 1 weights, 2 tasks, 3 kernels, 4 custom AI CPU kernels, 5 shared libraries,
    6 flow model, 7 flow sub-model, 8 inputs and outputs, 9 static tasks, 10 dynamic tasks,
    11 task parameters, 12 tiling data, 20 pre-model description, 21 pre-model queue entries,
    22 pre-model kernel arguments, 24 bundle of models, 25 variables of a bundle,
    26 custom operators
"""
PARTITIONS: dict[int, str] = {
    **{int(number): name for number, name in re.findall(r"(\d+) ([^,\n]+)", _NAMES)},
    23: "pre-model description, extended",
}
_VERSION = struct.Struct("<8xI64xI")
_MODEL_TYPES = {3: "a flow model", 5: "a bundle of models"}
_MODELS_OF_MODELS = {6: _MODEL_TYPES[3], 7: _MODEL_TYPES[3], 24: _MODEL_TYPES[5]}
"""The partitions that only such models have: the graph beside them lacks their models' ops."""


def _named(kind: int) -> str:
    return PARTITIONS.get(kind, f"partition of type {kind}")


@dataclass(frozen=True, slots=True)
class Partition:
    """One part of a model: its type number and where it lies in the file."""

    type: int
    span: BinarySpan

    @property
    def name(self) -> str:
        """What the part holds, in words."""
        return _named(self.type)


@dataclass(frozen=True, slots=True)
class Container:
    """An offline model from outside; each model lists its partitions in table order."""

    version: int
    platform: str
    models: tuple[tuple[Partition, ...], ...]
    warnings: tuple[str, ...] = ()


def read_container(buffer: Buffer, path: Path) -> Container:
    """The header and tables of the offline model in *buffer*.

    Raises:
        ImportFormatError: with the byte offset, where it is damaged, cut or encrypted.
    """
    if buffer[:4] != MAGIC:
        raise ImportFormatError(path, "no offline model: it does not start with IMOD", offset=0)
    if len(buffer) < HEADER_BYTES + 4:
        what = f"the file ends inside its header, after {len(buffer)} bytes"
        raise ImportFormatError(path, what, offset=len(buffer), hint="copy it again")
    header = _Header(bytes(buffer[:HEADER_BYTES]))
    if header.encrypted:
        hint = "compile the model without encryption, or give its ge_proto_*_Build.txt"
        raise ImportFormatError(path, "the model is encrypted", offset=80, hint=hint)
    warnings = tuple(_size_warnings(header, len(buffer), path))
    tables = _Tables(buffer, path, header.wide)
    models = tuple(tables.read(header.count))
    types = {part.type for model in models for part in model}
    kind = _MODEL_TYPES.get(header.model_type)
    if kind is None and types & _MODELS_OF_MODELS.keys():
        kind = next(model_kind for part, model_kind in _MODELS_OF_MODELS.items() if part in types)
    if kind is None and MODEL_DEF not in types:
        kind = "a model without a graph"
    if kind is not None:
        hint = "give the single models it was made of"
        raise ImportFormatError(path, f"this is {kind}", offset=82, hint=hint)
    return Container(header.version, header.platform, models, (*warnings, *tables.warnings))


class _Header:
    def __init__(self, data: bytes) -> None:
        self.version, self.length = _VERSION.unpack_from(data)
        self.encrypted = data[80] == 1
        self.model_type = data[82]
        (count,) = struct.unpack_from("<I", data, 156)
        # Older headers have the platform's version here and no number of models.
        newer = self.version >= _TWO and count <= _MAX_MODELS
        self.count = max(count, 1) if newer else 1
        self.platform = _text(data[160:180] if newer else data[156:176])
        self.model_length: int = struct.unpack_from("<Q", data, 184)[0] if newer else 0
        self.wide = self.model_length != 0 or (newer and self.model_type == 3)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _size_warnings(header: _Header, size: int, path: Path) -> Iterator[str]:
    """What is odd about the file's size; it must hold what its header promises."""
    promised = HEADER_BYTES + (header.model_length or header.length)
    if size < promised:
        what = f"the file ends after {size} bytes of {promised}"
        raise ImportFormatError(path, what, offset=size, hint="it was cut; copy it again")
    if size > promised and header.length:
        yield f"{size - promised} bytes after the model's end are passed over"


class _Tables:
    """Reads the models one after the other: each is a table and the data behind it."""

    def __init__(self, buffer: Buffer, path: Path, wide: bool) -> None:
        self._buffer = buffer
        self._path = path
        self._head, self._entry = (
            (8, struct.Struct("<I4xQQ")) if wide else (4, struct.Struct("<3I"))
        )
        self.warnings: list[str] = []

    def read(self, count: int) -> Iterator[tuple[Partition, ...]]:
        at = HEADER_BYTES
        for number in range(count):
            if at + self._head > len(self._buffer):
                what = f"the file ends before model {number + 1} of {count}"
                raise self._error(at, what)
            partitions, at = self._model(at)
            yield partitions

    def _model(self, at: int) -> tuple[tuple[Partition, ...], int]:
        (count,) = struct.unpack_from("<I", self._buffer, at)
        if not 1 <= count <= _MAX_PARTITIONS:
            raise self._error(at, f"a table of {count} partitions")
        start = at + self._head
        data = start + count * self._entry.size
        if data > len(self._buffer):
            raise self._error(start, f"the file ends inside a table of {count} partitions")
        partitions: list[Partition] = []
        for index in range(count):
            entry = start + index * self._entry.size
            kind, offset, size = self._entry.unpack_from(self._buffer, entry)
            if size and offset + size > len(self._buffer) - data:
                what = f"{size} bytes at {data + offset} reach past the end of the file"
                raise self._error(entry, f"{_named(kind)}: {what}")
            partitions.append(Partition(kind, BinarySpan(data + offset, size)))
        self._check_overlaps(partitions, start)
        ends = (part.span.offset + part.span.size for part in partitions if part.span.size)
        return tuple(partitions), max(ends, default=data)

    def _check_overlaps(self, partitions: list[Partition], at: int) -> None:
        inside = sorted((part.span, part.name) for part in partitions if part.span.size)
        for (before, first), (after, second) in pairwise(inside):
            if before.offset + before.size > after.offset:
                raise self._error(at, f"{first} and {second} overlap at byte {after.offset}")
        kinds = [part.type for part in partitions]
        twice = sorted({PARTITIONS.get(kind, str(kind)) for kind in kinds if kinds.count(kind) > 1})
        if twice:
            self.warnings.append(f"a model has several partitions of {', '.join(twice)}")

    def _error(self, offset: int, what: str) -> ImportFormatError:
        return ImportFormatError(self._path, what, offset=offset, hint="it is damaged or was cut")


# Undo GE's ``om_compress``: attribute names and texts of a model replaced by numbers.
#
# Source: GE's base/common/model/model_compress_manager.cc and
# graph_metadef/graph/utils/enum_attr_utils.cc. The tables lie in attributes of the model.


_CODE = "\0"
_BASE = 127
_TABLES = {"om_compress_version", "attr_name_enum", "attr_value_enum", "attrs_use_string_value"}


@dataclass(frozen=True, slots=True)
class Tables:
    """What the codes of a model stand for; *root* are those of the file's first model.

    A later model shares ops with the first one, which was compressed before it: what its
    own tables give may again be a code of *root*.
    """

    names: tuple[str, ...] = ()
    texts: tuple[Value, ...] = ()
    is_text: tuple[bool, ...] = ()
    root: Tables | None = None

    def op(self, fields: Fields) -> Fields:
        """The fields of an op, or of a descriptor in it, with all attributes as named."""
        if not self.names:
            return fields
        return [(name, self._named(name, value)) for name, value in fields]

    def _named(self, name: bytes, value: Value) -> Value:
        if name == b"attr":
            return self._entry(message(value))
        return self.op(message(value)) if name in (b"input_desc", b"output_desc") else value

    def _entry(self, fields: Fields) -> Fields:
        key: str = next((text(value) for name, value in fields if name == b"key"), "")
        if not key.startswith(_CODE):
            return fields
        values: list[Value] = [value for name, value in fields if name == b"value"]
        content: Fields = message(values[-1]) if values else []
        tables: Tables | None = self
        while tables is not None and key.startswith(_CODE):
            index = _index(key)
            if index >= len(tables.names):
                raise ValueError(f"attribute code {index} of {len(tables.names)}")
            key = tables.names[index]
            if index < len(tables.is_text) and tables.is_text[index]:
                content = tables._texts(content)
            tables = tables.root
        return [(b"key", key), (b"value", content)]

    def _texts(self, content: Fields) -> Fields:
        """Numbers of texts as the texts: of a single value, or of each in a list."""
        return [
            (b"s", self._text(value))
            if name == b"i"
            else (name, self._texts(message(value)) if name == b"list" else value)
            for name, value in content
        ]

    def _text(self, value: Value) -> Value:
        index = whole(value)
        if not 0 <= index < len(self.texts):
            raise ValueError(f"text {index} of {len(self.texts)}")
        return self.texts[index]


def read_tables(attrs: list[Fields], root: Tables | None) -> Tables:
    """The tables in the attributes of a model; empty ones if it is not compressed.

    Raises:
        ValueError: they are damaged, or of a way of compression nobody here knows.
    """
    fields_by_key: dict[str, Fields] = {}
    for entry in attrs:
        key: Value = next((value for name, value in entry if name == b"key"), "")
        if isinstance(key, str) and key in _TABLES:
            fields_by_key[key] = next(
                (message(value) for name, value in entry if name == b"value"), []
            )
    version = next((whole(value) for _, value in fields_by_key.get("om_compress_version", ())), 0)
    if version == 0:
        return Tables(root=root)
    if version != 1:
        raise ValueError(f"attributes compressed in way {version}; only way 1 is known")
    return Tables(
        names=tuple(text(value) for value in _listed(fields_by_key, "attr_name_enum", b"s")),
        texts=tuple(_listed(fields_by_key, "attr_value_enum", b"s")),
        is_text=tuple(
            truth(value) for value in _listed(fields_by_key, "attrs_use_string_value", b"b")
        ),
        root=root,
    )


def _listed(fields_by_key: dict[str, Fields], key: str, kind: bytes) -> list[Value]:
    return [
        item
        for name, content in fields_by_key.get(key, ())
        if name == b"list"
        for item_kind, item in message(content)
        if item_kind == kind
    ]


def _index(key: str) -> int:
    """The number behind a code: digits to the base 127, the lowest first, each plus one."""
    digits = key[1:].encode("utf-8", "surrogatepass")
    if not 1 <= len(digits) <= 8 or min(digits) == 0 or max(digits) > _BASE:
        raise ValueError(f"{key[:20]!r} is not an attribute code")
    return sum((digit - 1) * _BASE**place for place, digit in enumerate(digits))
