"""Walks the fields of a protobuf message without decoding what they hold.

Large byte fields are told by their place, never copied, and nothing is allocated by a
length the file merely claims. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

from graphstore.model import Reason
from importers.dumps.index import DamagedError

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 1 << 16
"""Fields of one message past this are taken for damage."""

Buffer = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class DumpField:
    """One field: ``number`` and ``wire`` type, the bytes ``start`` to ``end`` of its
    content, ``value`` if it is a varint, ``tag`` where the field begins."""

    number: int
    wire: int
    start: int
    end: int
    value: int
    tag: int


def fields(data: Buffer, start: int, end: int, *, limit: int = MAX_FIELDS) -> Iterator[DumpField]:
    """The fields of the message in *data* from *start* to *end*, in order.

    Raises:
        DamagedError: it is no message; says at which byte of *data*.
    """
    at = start
    for _ in range(limit):
        if at >= end:
            return
        tag = at
        key, at = varint(data, at, end)
        number, wire = key >> 3, key & 7
        value, stop = 0, at
        if wire == VARINT:
            value, stop = varint(data, at, end)
        elif wire == BLOCK:
            length, at = varint(data, at, end)
            stop = at + length
        elif wire in (FIXED32, FIXED64):
            stop = at + (4 if wire == FIXED32 else 8)
        else:
            raise _bad(f"a field of wire type {wire}", tag)
        if number == 0 or stop > end:
            what = "a field numbered 0" if number == 0 else f"a field that ends at byte {stop}"
            raise _bad(f"{what} in a message that ends at byte {end}", tag)
        yield DumpField(number, wire, at, stop, value, tag)
        at = stop
    if at < end:
        raise _bad(f"more than {limit} fields", at)


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """The number at *at* and the place behind it.

    Raises:
        DamagedError: it is cut or longer than 10 bytes.
    """
    value = shift = 0
    for index in range(at, min(at + 10, end)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, index + 1
        shift += 7
    raise _bad("a number is cut or too long", at)


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(Reason.UNREADABLE_DUMP, f"the message is damaged: {what}", offset=at)
