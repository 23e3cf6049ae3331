"""Look at the outermost fields of a binary protobuf, just enough to tell its kind.

Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from dataclasses import dataclass

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5


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
        key, at = _varint(head, at)
        if key is None:
            break
        number, wire_type = key >> 3, key & 7
        if number == 0 or number >= 1 << 29:
            return []
        if wire_type == VARINT:
            value, at = _varint(head, at)
            if value is None:
                break
            fields.append(WireField(number, wire_type))
        elif wire_type in (FIXED32, FIXED64):
            at += 4 if wire_type == FIXED32 else 8
            fields.append(WireField(number, wire_type))
        elif wire_type == BLOCK:
            length, at = _varint(head, at)
            if length is None:
                break
            fields.append(WireField(number, wire_type, head[at : at + length]))
            at += length
        else:
            return []
    return fields


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    """The number at *at* and where it ends; None where it is cut or too long."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return None, at
