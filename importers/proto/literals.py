"""The literals of protobuf text format: texts, numbers and truth values as written.

Grammar: https://protobuf.dev/reference/protobuf/textformat-spec/#tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

STRING = rb"(?:\"(?:[^\"\\\n]++|\\[^\n])*+\"|'(?:[^'\\\n]++|\\[^\n])*+')"
"""What a string literal is: in quotes, on one line. Nothing in it is tried twice."""

_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))",
    re.DOTALL,
)
_EACH_STRING = re.compile(STRING)
_MOST_DIGITS = 400
"""A double has at most 309 digits before its point."""

_MOST_SHOWN = 40
_PLAIN_ESCAPES = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))


def is_string(value: Sequence[Any]) -> bool:
    """Whether a value is a scalar, and written as a string literal."""
    return value[:1] in (b'"', b"'")


def string_bytes(literal: bytes) -> bytes:
    """The bytes of a string literal (or several adjacent ones), C-escapes undone."""
    if b"\\" not in literal and literal.count(literal[:1]) == 2:
        return literal[1:-1]
    return b"".join(_ESCAPE.sub(_unescaped, part[1:-1]) for part in _EACH_STRING.findall(literal))


def string(literal: bytes) -> str:
    """The text of a string literal; bytes that are not UTF-8 stay visible as ``\\xff``."""
    return string_bytes(literal).decode("utf-8", "backslashreplace")


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, short_hex, *code_points, plain = match.groups()
    if octal is not None:
        return bytes((int(octal, 8) & 0xFF,))
    if short_hex is not None:
        return bytes((int(short_hex, 16),))
    for code in code_points:
        if code is not None:
            point = int(code, 16)
            return chr(point).encode("utf-8", "surrogatepass") if point < 0x110000 else match[0]
    return bytes((_PLAIN_ESCAPES.get(plain[0], plain[0]),))


def integer(token: bytes) -> int:
    """The value of an integer literal: decimal, ``0x`` hex or ``0`` octal.

    Raises:
        ValueError: it is not one.
    """
    if token.isdigit() and token[:1] != b"0":
        if len(token) > _MOST_DIGITS:
            raise ValueError(f"a number of {len(token)} digits, which no field holds")
        return int(token)
    text = _one_word(token)
    digits = text.lstrip("+-")
    is_octal = len(digits) > 1 and digits[0] == "0"
    base = 16 if digits[:2] in ("0x", "0X") else 8 if is_octal else 10
    try:
        number = int(digits, base)
    except ValueError:
        raise ValueError(f"{_cut_text(text)} is no whole number") from None
    return -number if text.startswith("-") else number


def real(token: bytes) -> float:
    """The value of a float literal, ``1.5f``, ``inf`` and ``nan`` included.

    Raises:
        ValueError: it is not one.
    """
    text = _one_word(token).lower()
    if text.lstrip("+-").startswith("0x"):
        return float(integer(token))
    try:
        return float(text.removesuffix("f") if text.lstrip("+-") != "inf" else text)
    except ValueError:
        raise ValueError(f"{_cut_text(text)} is no number") from None


def boolean(token: bytes) -> bool:
    """The value of a boolean literal.

    Raises:
        ValueError: it is not one.
    """
    text = _one_word(token)
    if text in ("true", "True", "t", "1"):
        return True
    if text in ("false", "False", "f", "0"):
        return False
    raise ValueError(f"{_cut_text(text)} is neither true nor false")


def _cut_text(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _one_word(token: bytes) -> str:
    if is_string(token):
        raise ValueError("a text where a number belongs")
    return "".join(token.decode("ascii", "backslashreplace").split())
