"""Walk the fields of a binary protobuf without a schema, and without copying large ones.

Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    fields: list[WireField] = []
    at = 0
    while at < len(head) and len(fields) < limit:
        key, at = read_varint(head, at)
        if key is None:
            break
        number, wire_type = key >> 3, key & 7
        if number == 0 or number >= 1 << 29:
            return []
        if wire_type == VARINT:
            value, at = read_varint(head, at)
            if value is None:
                break
            fields.append(WireField(number, wire_type))
        elif wire_type in (FIXED32, FIXED64):
            at += 4 if wire_type == FIXED32 else 8
            fields.append(WireField(number, wire_type))
        elif wire_type == BLOCK:
            length, at = read_varint(head, at)
            if length is None:
                break
            fields.append(WireField(number, wire_type, head[at : at + length]))
            at += length
        else:
            return []
    return fields


class WireError(ValueError):
    """Bytes that are no message; ``at`` is the byte where that shows."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
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


def spans(buffer: bytes | mmap.mmap, start: int = 0, end: int | None = None) -> Iterator[FieldSpan]:
    """The fields of the message in ``buffer[start:end]``, in order.

    Nothing is copied, or allocated by a length the bytes merely claim.

    Raises:
        WireError: the bytes are no message, or it is cut.
    """
    stop = len(buffer) if end is None else end
    at = start
    while at < stop:
        begin = at
        key, at = read_varint(buffer, at)
        if key is None or key >> 3 == 0 or key >> 3 >= 1 << 29:
            raise WireError(f"no field starts at byte {begin}", begin)
        kind = key & 7
        value: int | None = 0
        first = at
        if kind == VARINT:
            value, at = read_varint(buffer, at)
        elif kind == BLOCK:
            value, first = read_varint(buffer, at)
            at = first + (value or 0)
        elif kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        else:
            raise WireError(f"the field at byte {begin} has an unknown wire type", begin)
        if value is None or at > stop:
            raise WireError(f"the field at byte {begin} reaches past its end", begin)
        yield FieldSpan(key >> 3, kind, begin, first, at, value if kind == VARINT else 0)


Plan: TypeAlias = "Mapping[int, Plan | None]"
"""Fields to look into, by number; None marks those that are left out where they are long."""

_MAX_DEPTH = 100


def without_long(buffer: bytes | mmap.mmap, plan: Plan, most: int) -> bytes:
    """The message in *buffer* without the fields *plan* marks that take over *most* bytes.

    Memory holds what is kept only, so a message larger than a parser takes can be read.

    Raises:
        ValueError: the bytes are no message, or nested deeper than a parser takes.
    """
    return b"".join(_kept(buffer, 0, len(buffer), plan, most, _MAX_DEPTH))


def _kept(
    buffer: bytes | mmap.mmap, start: int, end: int, plan: Plan, most: int, depth: int
) -> list[bytes]:
    if depth == 0:
        raise ValueError(f"messages are nested deeper than {_MAX_DEPTH}")
    subgraphs: list[bytes] = []
    copied = start  # what lies before is in pieces, or left out
    for span in spans(buffer, start, end):
        if span.end - span.start <= most or span.number not in plan or span.wire_type != BLOCK:
            continue
        inner = plan[span.number]
        subgraphs.append(buffer[copied : span.key])
        copied = span.end
        if inner is not None:
            kept = _kept(buffer, span.start, span.end, inner, most, depth - 1)
            length = sum(map(len, kept))
            subgraphs += [varint_bytes(span.number << 3 | BLOCK), varint_bytes(length), *kept]
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
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, at
    return None, at
