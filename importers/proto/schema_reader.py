"""Read binary messages by a schema in words, a block at a time, long values left in the file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from graphstore.errors import ImportFormatError
from importers.proto.text_reader import Buffer
from importers.proto.values import BinarySpan, Value
from importers.proto.wire import BLOCK, FIXED32, FIXED64, VARINT, WireError, read_varint, walk

Read: TypeAlias = list[tuple[bytes, Value]]

MAX_DEPTH = 64
"""Deeper nesting is an error."""

MAX_FIELDS = 1_000_000
"""Fields of one block; more are damage, as each costs many times its bytes in memory."""

MAX_TEXT_BYTES = 1 << 15
"""A text longer than this stays in the file; what is kept of texts is far shorter."""

MAX_LIST_BYTES = 1 << 16
"""A packed list longer than this is a table, which nobody looks at: it stays in the file."""


class _Field(NamedTuple):
    """A field: its name, and what it holds: a message by its name, or one of :data:`_SCALARS`."""

    name: bytes
    holds: str


_SCALARS = frozenset({"text", "integer", "truth", "float", "double", "binary"})

Schema: TypeAlias = Mapping[str, Mapping[int, _Field]]
"""The fields of messages by number, by the name of the message."""


def schema(text: str) -> Schema:
    """The messages in *text*: ``Name: number=field/holds ...``; enums are integers, bytes that
    are text are text."""
    schemas: dict[str, dict[int, _Field]] = {}
    for word in text.split():
        if word.endswith(":"):
            fields = schemas.setdefault(word[:-1], {})
        else:
            number, name, holds = re.split("[=/]", word)
            fields[int(number)] = _Field(name.encode(), holds)
    return schemas


_SHORT, _MAX_KNOWN = 200, 20_000
_WIDTHS = {"float": (4, "f"), "double": (8, "d")}


class SchemaReader:
    """Reads messages of *messages* in *buffer*, the bytes of *path* (named in errors).

    Short messages named *repeated* are read once where their bytes are the same.
    """

    def __init__(self, buffer: Buffer, path: Path, messages: Schema, repeated: str = "") -> None:
        self._schema = messages
        self._repeated = repeated
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
        schema = self._schema[kind]
        try:
            for field in walk(self._buffer, span.offset, span.offset + span.size):
                self._left = MAX_FIELDS
                fields: Read = []
                self._add(schema, field, fields, 1)
                for name, value in fields:
                    yield name, value, field[2]
        except WireError as error:
            raise self.error(error.at, error.what) from error

    def error(self, offset: int, what: str) -> ImportFormatError:
        """An error at byte *offset*."""
        return ImportFormatError(self._path, what, offset=offset, hint="it is damaged or was cut")

    @contextmanager
    def told(self, offset: int) -> Iterator[None]:
        """Tells a ValueError as damage at byte *offset*."""
        try:
            yield
        except ValueError as error:
            raise self.error(offset, str(error)) from error

    def _fields(self, kind: str, at: int, end: int, depth: int) -> Read:
        if depth > MAX_DEPTH:
            raise self.error(at, f"messages are nested deeper than {MAX_DEPTH}")
        fields: Read = []
        schema = self._schema[kind]
        try:
            for span in walk(self._buffer, at, end):
                self._add(schema, span, fields, depth)
        except WireError as error:
            raise self.error(error.at, error.what) from error
        return fields

    def _add(
        self,
        schema: Mapping[int, _Field],
        span: tuple[int, int, int, int, int, int],
        fields: Read,
        depth: int,
    ) -> None:
        """Add the field at *span* (see :class:`FieldSpan`) to *fields*, if *schema* knows it."""
        number, kind, key, start, end, value = span
        self._left -= 1
        if self._left < 0:
            raise self.error(key, f"more than {MAX_FIELDS} fields in one block")
        field = schema.get(number)
        if field is None:
            return
        if kind == BLOCK:
            self._block(field, start, end - start, fields, depth)
        elif kind == VARINT and field.holds in ("integer", "truth"):
            fields.append((field.name, _signed(value) if field.holds == "integer" else value != 0))
        elif kind == FIXED32 and field.holds == "float":
            fields.append((field.name, struct.unpack_from("<f", self._buffer, start)[0]))
        elif kind == FIXED64 and field.holds == "double":
            fields.append((field.name, struct.unpack_from("<d", self._buffer, start)[0]))

    def _block(self, field: _Field, at: int, size: int, fields: Read, depth: int) -> None:
        if field.holds not in _SCALARS:
            fields.append((field.name, self._message(field, at, size, depth + 1)))
        elif field.holds == "text" and size <= MAX_TEXT_BYTES:
            read = self._buffer[at : at + size].decode("utf-8", "backslashreplace")
            fields.append((field.name, read))
        elif field.holds in ("text", "binary") or size > MAX_LIST_BYTES:
            self._spans += 1
            fields.append((field.name, BinarySpan(at, size)))
        else:
            fields.extend((field.name, value) for value in self._packed(field, at, at + size))

    def _message(self, field: _Field, at: int, size: int, depth: int) -> Read:
        if field.holds != self._repeated or size > _SHORT:
            return self._fields(field.holds, at, at + size, depth)
        # A graph repeats some thousand attributes a million times: read each one once. Those
        # with a place in the file are nowhere else.
        content = self._buffer[at : at + size]
        fields = self._known.get(content)
        if fields is None:
            spans = self._spans
            fields = self._fields(field.holds, at, at + size, depth)
            if spans == self._spans and len(self._known) < _MAX_KNOWN:
                self._known[content] = fields
        return fields

    def _packed(self, field: _Field, at: int, end: int) -> Iterator[int | float]:
        """The elements of a repeated number, which proto3 writes without keys between."""
        if field.holds in _WIDTHS:
            width, code = _WIDTHS[field.holds]
            if (end - at) % width:
                what = f"a list of {field.holds}s whose size is not a multiple of {width}"
                raise self.error(at, what)
            yield from struct.unpack(f"<{(end - at) // width}{code}", self._buffer[at:end])
            return
        convert = bool if field.holds == "truth" else _signed
        while at < end:
            value, next_at = read_varint(self._buffer, at)
            if value is None or next_at > end:
                raise self.error(at, "a number that is cut, or longer than ten bytes")
            yield convert(value)
            at = next_at


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
