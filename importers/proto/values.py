"""Values of messages, whichever file they come from, as plain Python ones.

A text file hands out scalars as they are written (``bytes``, strings with their quotes),
a binary or JSON file as numbers and texts. Every function raises ValueError on a value of
a wrong kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from importers.proto.literals import boolean, integer, is_string, real, string
from importers.proto.text_reader import Entry

_MAX_FLOAT = float(np.finfo(np.float32).max)


class BinarySpan(NamedTuple):
    """A binary value that stays in its file: *size* bytes from byte *offset*."""

    offset: int
    size: int


Value: TypeAlias = "bytes | str | int | float | BinarySpan | Entry | Sequence[tuple[bytes, Value]]"
"""A scalar, a binary left in its file, an unread map entry, or the fields of a message."""

Fields: TypeAlias = Sequence[tuple[bytes, Value]]
"""A message: its fields in file order; a repeated field comes once an element."""


def message(value: Value) -> Fields:
    """*value* if it is a block."""
    if isinstance(value, list):
        return value
    raise ValueError(f"{_value_text(value)} where a block belongs")


def text(value: Value) -> str:
    """The text of a string field; bytes that are not UTF-8 stay visible as ``\\xff``."""
    if isinstance(value, bytes):
        if is_string(value):
            return string(value)
    elif isinstance(value, str):
        return value
    raise ValueError(f"{_value_text(value)} where a text belongs")


def word(value: Value) -> str:
    """The name of an enum value, or its number as text."""
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    raise ValueError(f"{_value_text(value)} where a name belongs")


def whole(value: Value) -> int:
    """The number of an integer field: 64 bits, whichever way they are signed."""
    if isinstance(value, bytes):
        integer_value = integer(value)
    elif type(value) is int:
        integer_value = value
    elif isinstance(value, str) and len(value) < 24:  # JSON may write 64-bit numbers so
        integer_value = int(value)
    else:
        raise ValueError(f"{_value_text(value)} where a whole number belongs")
    if not -(1 << 63) <= integer_value < 1 << 64:
        raise ValueError(f"{_value_text(value)} does not fit into 64 bits")
    return integer_value


def number(value: Value) -> float:
    """The number of a float field, of all that are the same float32 the one with the fewest
    digits: 0.1, whether the file says so, has the bits, or spells them all out."""
    if isinstance(value, bytes):
        real_value = real(value)
    elif isinstance(value, (int, float)) or (isinstance(value, str) and len(value) < 40):
        real_value = float(value)
    else:
        raise ValueError(f"{_value_text(value)} where a number belongs")
    return float(str(np.float32(real_value))) if abs(real_value) <= _MAX_FLOAT else real_value


def truth(value: Value) -> bool:
    """The value of a boolean field."""
    if isinstance(value, bytes):
        return boolean(value)
    if value in (0, 1):
        return bool(value)
    raise ValueError(f"{_value_text(value)} where true or false belongs")


def _value_text(value: Value) -> str:
    if isinstance(value, bytes):
        return value[:40].decode("utf-8", "backslashreplace")
    if isinstance(value, (list, tuple)):
        return "a block"
    if type(value) is int and value.bit_length() > 200:
        return "a number"
    return repr(value)[:40]
