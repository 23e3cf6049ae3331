"""Walk the fields of a binary protobuf without a schema, and without copying large ones.

Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class WireField:
    """A field: its number, its wire type and, for blocks, the content in sight."""

    number: int
    wire_type: int
    content: bytes = b""

    @property
    def kind(self) -> tuple[int, int]:
        """Number and wire type together."""
        return self.number, self.wire_type


def outer_fields(head: bytes, limit: int = 64) -> list[WireField]:
    """The first fields of a message that starts with *head*, at most *limit*.

    Empty where *head* is no protobuf. The last block may reach past *head*.
    """
    try:
        fields = list(islice(spans(head, cut=True), limit))
    except WireError:
        return []
    return [
        WireField(*(span.number, span.wire_type, head[span.start : span.end]))
        if span.wire_type == BLOCK
        else WireField(span.number, span.wire_type)
        for span in fields
    ]


class WireError(ValueError):
    """Bytes that are no message: ``what`` shows that, at byte ``at``."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(f"{what} (at byte {at})")
        self.what = what
        self.at = at


class FieldSpan(NamedTuple):
    """A field by its place: ``key`` is where it begins, ``start`` to ``end`` its content.

    ``value`` is the number of a varint, 0 for other wire types.
    """

    number: int
    wire_type: int
    key: int
    start: int
    end: int
    value: int = 0


def spans(
    buffer: bytes | mmap.mmap, start: int = 0, end: int | None = None, *, cut: bool = False
) -> Iterator[FieldSpan]:
    """The fields of the message in ``buffer[start:end]``, in order; of one that may be *cut*
    those in sight.

    Nothing is copied, or allocated by a length the bytes merely claim.

    Raises:
        WireError: the bytes are no message, or it is cut.
    """
    return map(FieldSpan._make, walk(buffer, start, end, cut=cut))


def walk(
    buffer: bytes | mmap.mmap, start: int = 0, end: int | None = None, *, cut: bool = False
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """As :func:`spans`, as plain tuples: a record for each field takes as long as to find it."""
    stop = len(buffer) if end is None else end
    at = start
    while at < stop:
        begin = at
        # Nearly all keys and lengths are of one byte: a call for each would double the time.
        byte = buffer[at]
        key, at = (byte, at + 1) if byte < 0x80 else read_varint(buffer, at)
        if key is None:
            if cut:
                return
            raise WireError(_fault(None, at, at, stop), begin)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise WireError(f"a field with the number {number}", begin)
        value: int | None = 0
        first = at
        if kind in (VARINT, BLOCK):
            value = buffer[at] if at < stop else 0x80
            at += 1
            if value >= 0x80:
                value, at = read_varint(buffer, first)
            if kind == BLOCK:
                first, at = at, at + (value or 0)
        elif kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        else:
            raise WireError(f"no field of protobuf starts here (wire type {kind})", begin)
        if value is None or at > stop:
            if not cut:
                raise WireError(_fault(value, first, at, stop), begin)
            if value is None:
                return
        yield number, kind, begin, first, at, value if kind == VARINT else 0


def _fault(value: int | None, first: int, at: int, stop: int) -> str:
    if value is None and at < stop:
        return "a number longer than ten bytes"
    if not value:
        return "the message ends inside a number"
    return f"a field of {value} bytes where its message has only {max(stop - first, 0)} left"


Plan: TypeAlias = "Mapping[int, Plan | None]"
"""Fields to look into, by number; None marks those that are left out where they are long."""

_MAX_DEPTH = 100


def without_long(buffer: bytes | mmap.mmap, plan: Plan, longest: int) -> bytes:
    """The message in *buffer* without the fields *plan* marks that take over *longest* bytes.

    Memory holds what is kept only, so a message larger than a parser takes can be read.

    Raises:
        ValueError: the bytes are no message, or nested deeper than a parser takes.
    """
    return b"".join(_short_fields(buffer, 0, len(buffer), plan, longest, _MAX_DEPTH))


def _short_fields(
    buffer: bytes | mmap.mmap, start: int, end: int, plan: Plan, longest: int, depth: int
) -> list[bytes]:
    if depth == 0:
        raise ValueError(f"messages are nested deeper than {_MAX_DEPTH}")
    subgraphs: list[bytes] = []
    copied = start  # what lies before is in pieces, or left out
    for span in spans(buffer, start, end):
        if span.end - span.start <= longest or span.number not in plan or span.wire_type != BLOCK:
            continue
        inner = plan[span.number]
        subgraphs.append(buffer[copied : span.key])
        copied = span.end
        if inner is not None:
            pieces = _short_fields(buffer, span.start, span.end, inner, longest, depth - 1)
            length = sum(map(len, pieces))
            subgraphs += [varint_bytes(span.number << 3 | BLOCK), varint_bytes(length), *pieces]
    subgraphs.append(buffer[copied:end])
    return subgraphs


def varint_bytes(value: int) -> bytes:
    """A number as fields hold it."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes | mmap.mmap, at: int) -> tuple[int | None, int]:
    """The number at *at* and where it ends; None where it is cut or too long."""
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & _64_BITS, at + place + 1
    return None, min(at + 10, len(data))
