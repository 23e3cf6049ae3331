"""Read GE's binary messages (``ge.proto.ModelDef`` in an offline model) field by field.

Field numbers follow ge_ir.proto; unknown ones are passed over. Nothing is allocated for a
length that the message around it does not hold, binaries stay in their file, and errors
name the byte. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from graphstore.errors import ImportFormatError
from importers.kept import MAX_TEXT
from importers.proto.text_reader import Buffer
from importers.proto.values import BinarySpan, Value
from importers.proto.wire import BLOCK, FIXED32, VARINT, WireError, read_varint, walk

Read: TypeAlias = list[tuple[bytes, Value]]

MAX_DEPTH = 64
"""Deeper nesting is an error: descriptors hold attributes that hold descriptors, twice at most."""

MAX_FIELDS = 1_000_000
"""Fields of one op; more are damage, as each costs many times its bytes in memory."""

MAX_LIST_BYTES = 1 << 16
"""A packed list longer than this is a table, which nobody looks at: it stays in the file."""


class _Field(NamedTuple):
    """A field: its name, and what it holds: a message by its name, or one of :data:`_SCALARS`."""

    name: bytes
    holds: str


_SCALARS = frozenset({"text", "integer", "truth", "float", "binary"})
# Field numbers, names and what they hold. Enums are integers; bytes that are text are text. The
# graph of a model is entered block by block; of functions and graphs in attributes only the name
# is of interest.
_MESSAGES = """
    ModelDef: 1=name/text 2=version/integer 3=custom_version/text 7=graph/binary 11=attr/AttrEntry
    GraphDef: 1=name/text 4=input/text 5=output/text 6=op/OpDef 11=attr/AttrEntry
    OpDef: 1=name/text 2=type/text 5=input/text 10=attr/AttrEntry 21=id/integer
        33=input_desc/TensorDescriptor 34=output_desc/TensorDescriptor 35=subgraph_name/text
    TensorDescriptor: 1=name/text 2=dtype/integer 3=shape/ShapeDef 4=layout/text 5=attr/AttrEntry
        10=size/integer 11=weight_size/integer 18=data_offset/integer
    ShapeDef: 1=dim/integer
    TensorDef: 1=desc/TensorDescriptor 2=data/binary
    AttrEntry: 1=key/text 2=value/AttrDef
    AttrDef: 1=list/ListValue 2=s/text 3=i/integer 4=f/float 5=b/truth 7=bt/binary 10=func/Named
        11=td/TensorDescriptor 12=t/TensorDef 13=g/Named 14=list_list_int/ListListInt 15=dt/integer
        16=list_list_float/ListListFloat 17=expression/text
    ListValue: 2=s/text 3=i/integer 4=f/float 5=b/truth 7=bt/binary 8=td/TensorDescriptor
        9=t/TensorDef 10=g/Named 11=na/Named 12=dt/integer
    ListListInt: 1=list_list_i/ListInt
    ListInt: 1=list_i/integer
    ListListFloat: 1=list_list_f/ListFloat
    ListFloat: 1=list_f/float
    Named: 1=name/text
"""


def _schema(text: str) -> dict[str, dict[int, _Field]]:
    found: dict[str, dict[int, _Field]] = {}
    for word in text.split():
        if word.endswith(":"):
            fields = found.setdefault(word[:-1], {})
        else:
            number, name, holds = re.split("[=/]", word)
            fields[int(number)] = _Field(name.encode(), holds)
    return found


_SCHEMA = _schema(_MESSAGES)
_SHORT, _MAX_KNOWN = 200, 20_000


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
        try:
            for field in walk(self._buffer, span.offset, span.offset + span.size):
                self._left = MAX_FIELDS
                found: Read = []
                self._add(schema, field, found, 1)
                for name, value in found:
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
        found: Read = []
        schema = _SCHEMA[kind]
        try:
            for span in walk(self._buffer, at, end):
                self._add(schema, span, found, depth)
        except WireError as error:
            raise self.error(error.at, error.what) from error
        return found

    def _add(
        self,
        schema: Mapping[int, _Field],
        span: tuple[int, int, int, int, int, int],
        found: Read,
        depth: int,
    ) -> None:
        """Add the field at *span* (see :class:`FieldSpan`) to *found*, if *schema* knows it."""
        number, kind, key, start, end, value = span
        self._left -= 1
        if self._left < 0:
            raise self.error(key, f"more than {MAX_FIELDS} fields in one block")
        field = schema.get(number)
        if field is None:
            return
        if kind == BLOCK:
            self._block(field, start, end - start, found, depth)
        elif kind == VARINT and field.holds in ("integer", "truth"):
            found.append((field.name, _signed(value) if field.holds == "integer" else value != 0))
        elif kind == FIXED32 and field.holds == "float":
            found.append((field.name, struct.unpack_from("<f", self._buffer, start)[0]))

    def _block(self, field: _Field, at: int, size: int, found: Read, depth: int) -> None:
        if field.holds not in _SCALARS:
            found.append((field.name, self._message(field, at, size, depth + 1)))
        elif field.holds == "text" and size <= 8 * MAX_TEXT:
            read = self._buffer[at : at + size].decode("utf-8", "backslashreplace")
            found.append((field.name, read))
        elif field.holds in ("text", "binary") or size > MAX_LIST_BYTES:
            self._spans += 1
            found.append((field.name, BinarySpan(at, size)))
        else:
            found.extend((field.name, value) for value in self._packed(field, at, at + size))

    def _message(self, field: _Field, at: int, size: int, depth: int) -> Read:
        if field.holds != "AttrEntry" or size > _SHORT:
            return self._fields(field.holds, at, at + size, depth)
        # A graph repeats some thousand attributes a million times: read each one once. Those
        # with a place in the file are nowhere else.
        content = self._buffer[at : at + size]
        known = self._known.get(content)
        if known is None:
            spans = self._spans
            known = self._fields(field.holds, at, at + size, depth)
            if spans == self._spans and len(self._known) < _MAX_KNOWN:
                self._known[content] = known
        return known

    def _packed(self, field: _Field, at: int, end: int) -> Iterator[int | float]:
        """The elements of a repeated number, which proto3 writes without keys between."""
        if field.holds == "float":
            if (end - at) % 4:
                raise self.error(at, "a list of floats whose size is not a multiple of 4")
            yield from struct.unpack(f"<{(end - at) // 4}f", self._buffer[at:end])
            return
        convert = bool if field.holds == "truth" else _signed
        while at < end:
            value, behind = read_varint(self._buffer, at)
            if value is None or behind > end:
                raise self.error(at, "a number that is cut, or longer than ten bytes")
            yield convert(value)
            at = behind


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
