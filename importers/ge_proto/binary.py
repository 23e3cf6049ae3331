"""Read GE's binary messages (``ge.proto.ModelDef`` in an offline model) field by field.

Field numbers follow ge_ir.proto; unknown ones are passed over. Nothing is allocated for a
length that the message around it does not hold, binaries stay in their file, and errors
name the byte. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from graphstore.errors import ImportFormatError
from importers.ge_proto.values import BinarySpan, Value
from importers.kept import MAX_TEXT
from importers.proto.text_reader import Buffer

Read: TypeAlias = list[tuple[bytes, Value]]

MAX_DEPTH = 64
"""Deeper nesting is an error: descriptors hold attributes that hold descriptors, twice at most."""

MAX_FIELDS = 1_000_000
"""Fields of one op; more are damage, as each costs many times its bytes in memory."""

MAX_LIST_BYTES = 1 << 16
"""A packed list longer than this is a table, which nobody looks at: it stays in the file."""


class _Kind(Enum):
    TEXT = "string, or bytes that are text"
    INTEGER = "int64, or an enum"
    BOOLEAN = "bool"
    FLOAT = "float"
    BINARY = "bytes"
    MESSAGE = "message"


class _Field(NamedTuple):
    name: bytes
    kind: _Kind
    message: str = ""


def _text(name: str) -> _Field:
    return _Field(name.encode(), _Kind.TEXT)


def _integer(name: str) -> _Field:
    return _Field(name.encode(), _Kind.INTEGER)


def _message(name: str, kind: str) -> _Field:
    return _Field(name.encode(), _Kind.MESSAGE, kind)


_BOOLEAN = _Field(b"b", _Kind.BOOLEAN)
_FLOAT = _Field(b"f", _Kind.FLOAT)
_BINARY = _Field(b"bt", _Kind.BINARY)
_ATTR = _message("attr", "AttrEntry")
_SCHEMA: Mapping[str, Mapping[int, _Field]] = {
    "ModelDef": {
        1: _text("name"),
        2: _integer("version"),
        3: _text("custom_version"),
        7: _Field(b"graph", _Kind.BINARY),  # entered block by block
        11: _ATTR,
    },
    "GraphDef": {
        1: _text("name"),
        4: _text("input"),
        5: _text("output"),
        6: _message("op", "OpDef"),
        11: _ATTR,
    },
    "OpDef": {
        1: _text("name"),
        2: _text("type"),
        5: _text("input"),
        10: _ATTR,
        21: _integer("id"),
        33: _message("input_desc", "TensorDescriptor"),
        34: _message("output_desc", "TensorDescriptor"),
        35: _text("subgraph_name"),
    },
    "TensorDescriptor": {
        1: _text("name"),
        2: _integer("dtype"),
        3: _message("shape", "ShapeDef"),
        4: _text("layout"),
        5: _ATTR,
        10: _integer("size"),
        11: _integer("weight_size"),
        18: _integer("data_offset"),
    },
    "ShapeDef": {1: _integer("dim")},
    "TensorDef": {
        1: _message("desc", "TensorDescriptor"),
        2: _Field(b"data", _Kind.BINARY),
    },
    "AttrEntry": {1: _text("key"), 2: _message("value", "AttrDef")},
    "AttrDef": {
        1: _message("list", "ListValue"),
        2: _text("s"),
        3: _integer("i"),
        4: _FLOAT,
        5: _BOOLEAN,
        7: _BINARY,
        10: _message("func", "Named"),
        11: _message("td", "TensorDescriptor"),
        12: _message("t", "TensorDef"),
        13: _message("g", "Named"),
        14: _message("list_list_int", "ListListInt"),
        15: _integer("dt"),
        16: _message("list_list_float", "ListListFloat"),
        17: _text("expression"),
    },
    "ListValue": {
        2: _text("s"),
        3: _integer("i"),
        4: _FLOAT,
        5: _BOOLEAN,
        7: _BINARY,
        8: _message("td", "TensorDescriptor"),
        9: _message("t", "TensorDef"),
        10: _message("g", "Named"),
        11: _message("na", "Named"),
        12: _integer("dt"),
    },
    "ListListInt": {1: _message("list_list_i", "ListInt")},
    "ListInt": {1: _integer("list_i")},
    "ListListFloat": {1: _message("list_list_f", "ListFloat")},
    "ListFloat": {1: _Field(b"list_f", _Kind.FLOAT)},
    # Of functions and graphs in attributes only the name is of interest.
    "Named": {1: _text("name")},
}
_SHORT, _MAX_KNOWN = 200, 20_000
_VARINT, _FIXED64, _BLOCK, _FIXED32 = 0, 1, 2, 5


class BinaryReader:
    """Reads messages of GE in *buffer*, the bytes of *path* (named in errors)."""

    def __init__(self, buffer: Buffer, path: Path) -> None:
        self._buffer = buffer
        self._path = path
        self._left = MAX_FIELDS
        self._spans = 0
        self._known: dict[bytes, Read] = {}

    def top(self, kind: str, span: BinarySpan) -> Iterator[tuple[bytes, Value, int]]:
        """The fields of the message *kind* in *span* one by one, each with its byte offset.

        Raises:
            ImportFormatError: with the byte, where the message is damaged.
        """
        schema = _SCHEMA[kind]
        at, end = span.offset, span.offset + span.size
        while at < end:
            start = at
            self._left = MAX_FIELDS
            found: Read = []
            at = self._field(schema, at, end, found, 1)
            for name, value in found:
                yield name, value, start

    def error(self, offset: int, what: str) -> ImportFormatError:
        """An error at byte *offset*."""
        return ImportFormatError(self._path, what, offset=offset, hint="it is damaged or was cut")

    def _fields(self, kind: str, at: int, end: int, depth: int) -> Read:
        if depth > MAX_DEPTH:
            raise self.error(at, f"messages are nested deeper than {MAX_DEPTH}")
        schema = _SCHEMA[kind]
        found: Read = []
        while at < end:
            at = self._field(schema, at, end, found, depth)
        return found

    def _field(
        self, schema: Mapping[int, _Field], at: int, end: int, found: Read, depth: int
    ) -> int:
        """Add the field at byte *at* to *found*; returns where the next one starts."""
        start = at
        key, at = self._varint(at, end)
        field = schema.get(key >> 3)
        wire_type = key & 7
        if not key >> 3:
            raise self.error(start, "a field with the number 0")
        self._left -= 1
        if self._left < 0:
            raise self.error(start, f"more than {MAX_FIELDS} fields in one block")
        if wire_type == _BLOCK:
            size, at = self._varint(at, end)
            if size > end - at:
                what = f"a field of {size} bytes where its message has only {end - at} left"
                raise self.error(start, what)
            if field is not None:
                self._block(field, at, size, found, depth)
            return at + size
        if wire_type == _VARINT:
            value, at = self._varint(at, end)
            if field is not None and field.kind is _Kind.INTEGER:
                found.append((field.name, _signed(value)))
            elif field is not None and field.kind is _Kind.BOOLEAN:
                found.append((field.name, value != 0))
            return at
        if wire_type in (_FIXED32, _FIXED64):
            size = 4 if wire_type == _FIXED32 else 8
            if size > end - at:
                raise self.error(start, "the message ends inside a number")
            if field is not None and field.kind is _Kind.FLOAT and size == 4:
                found.append((field.name, struct.unpack_from("<f", self._buffer, at)[0]))
            return at + size
        raise self.error(start, f"no field of protobuf starts here (wire type {wire_type})")

    def _block(self, field: _Field, at: int, size: int, found: Read, depth: int) -> None:
        if field.kind is _Kind.MESSAGE:
            found.append((field.name, self._message(field, at, size, depth + 1)))
        elif field.kind is _Kind.TEXT and size <= 8 * MAX_TEXT:
            read = self._buffer[at : at + size].decode("utf-8", "backslashreplace")
            found.append((field.name, read))
        elif field.kind in (_Kind.TEXT, _Kind.BINARY) or size > MAX_LIST_BYTES:
            self._spans += 1
            found.append((field.name, BinarySpan(at, size)))
        else:
            found.extend((field.name, value) for value in self._packed(field, at, at + size))

    def _message(self, field: _Field, at: int, size: int, depth: int) -> Read:
        if field is not _ATTR or size > _SHORT:
            return self._fields(field.message, at, at + size, depth)
        # A graph repeats some thousand attributes a million times: read each one once. Those
        # with a place in the file are nowhere else.
        content = self._buffer[at : at + size]
        known = self._known.get(content)
        if known is None:
            spans = self._spans
            known = self._fields(field.message, at, at + size, depth)
            if spans == self._spans and len(self._known) < _MAX_KNOWN:
                self._known[content] = known
        return known

    def _packed(self, field: _Field, at: int, end: int) -> Iterator[int | float]:
        """The elements of a repeated number, which proto3 writes without keys between."""
        if field.kind is _Kind.FLOAT:
            if (end - at) % 4:
                raise self.error(at, "a list of floats whose size is no multiple of 4")
            yield from struct.unpack(f"<{(end - at) // 4}f", self._buffer[at:end])
            return
        convert: Callable[[int], int] = bool if field.kind is _Kind.BOOLEAN else _signed
        while at < end:
            value, at = self._varint(at, end)
            yield convert(value)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        if at < end and self._buffer[at] < 0x80:
            return self._buffer[at], at + 1
        value = 0
        for place in range(10):
            if at + place >= end:
                raise self.error(at, "the message ends inside a number")
            byte = self._buffer[at + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value, at + place + 1
        raise self.error(at, "a number longer than ten bytes")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
