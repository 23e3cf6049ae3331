"""A JSON file of any size as nested values, long texts told by their place.

Dumps as JSON are mostly base64: those texts stay in the file, which is mapped.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from importers.dumps.index import DamagedError

LONG_TEXT = 64
"""Texts of more bytes are told by their place, names of members always as text. The
shortest ``.npy`` takes 108 bytes as base64."""

MAX_DEPTH = 64
_MAX_NAME = 1 << 16
MAX_VALUES = 1 << 20

# Possessive: a text of a gigabyte must not leave a way back for each of its bytes.
_TOKEN = re.compile(
    rb"[ \t\r\n]*+(?:"
    rb"([{}\[\],:])"
    rb'|"([^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+)"'
    rb"|([-+.\w]{1,64})"
    rb")"
)
_SPACE = re.compile(rb"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class TextPlace:
    """The bytes of a long text between its quotes, as they are in the file."""

    offset: int
    length: int


Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | TextPlace | None"
Buffer: TypeAlias = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class _Token:
    mark: bytes
    value: Value
    at: int


def read_places(data: Buffer) -> Value:
    """The one JSON value in *data*.

    Raises:
        DamagedError: no JSON, nested deeper than :data:`MAX_DEPTH`, or too many values;
            says at which byte.
    """
    tokens = _tokens(data)
    value = _value(data, next(tokens), tokens, MAX_DEPTH)
    last = next(tokens)
    if last.mark != b"end":
        raise _bad("something follows the JSON value", last.at)
    return value


def _tokens(data: Buffer) -> Iterator[_Token]:
    at = 0
    for _ in range(MAX_VALUES):
        found = _TOKEN.match(data, at)
        if found is None:
            space = _SPACE.match(data, at)
            at = at if space is None else space.end()
            if at < len(data):
                raise _bad("this is no JSON", at)
            yield _Token(b"end", None, at)
            raise _bad("the JSON text ends here", at)
        start, at = at, found.end()
        if found[1] is not None:
            yield _Token(found[1], None, start)
        elif found.start(2) >= 0:  # not the text itself, which would be a copy of it
            yield _Token(b"value", _text(data, found.start(2), found.end(2)), start)
        else:
            yield _Token(b"value", _plain(found[3], start), start)
    raise _bad(f"more than {MAX_VALUES} marks and values", at)


def _text(data: Buffer, start: int, end: int) -> str | TextPlace:
    if end - start > LONG_TEXT:
        return TextPlace(start, end - start)
    return str(_plain(b'"' + bytes(data[start:end]) + b'"', start))


def _plain(raw: bytes, at: int) -> str | int | float | bool | None:
    try:
        value = json.loads(raw)
    except ValueError:
        raise _bad(f"{raw[:40]!r} is no JSON value", at) from None
    return value if isinstance(value, str | int | float | bool) else None


def _value(data: Buffer, token: _Token, tokens: Iterator[_Token], depth: int) -> Value:
    if token.mark == b"value":
        return token.value
    if depth == 0:
        raise _bad(f"nested deeper than {MAX_DEPTH}", token.at)
    if token.mark == b"{":
        return _object(data, tokens, depth - 1)
    if token.mark == b"[":
        return _list(data, tokens, depth - 1)
    raise _bad("a value should be here", token.at)


def _object(data: Buffer, tokens: Iterator[_Token], depth: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    token = next(tokens)
    while token.mark != b"}":
        name = _name(data, token)
        colon = next(tokens)
        if colon.mark != b":":
            raise _bad("a colon should be here", colon.at)
        found[name] = _value(data, next(tokens), tokens, depth)
        token = next(tokens)
        if token.mark == b",":
            token = next(tokens)
        elif token.mark != b"}":
            raise _bad("a comma or } should be here", token.at)
    return found


def _name(data: Buffer, token: _Token) -> str:
    """The text of a member's name."""
    value = token.value
    if isinstance(value, TextPlace) and value.length <= _MAX_NAME:
        end = value.offset + value.length
        value = _plain(b'"' + bytes(data[value.offset : end]) + b'"', value.offset)
    if not isinstance(value, str):
        raise _bad("a name should be here", token.at)
    return value


def _list(data: Buffer, tokens: Iterator[_Token], depth: int) -> list[Value]:
    found: list[Value] = []
    token = next(tokens)
    while token.mark != b"]":
        found.append(_value(data, token, tokens, depth))
        token = next(tokens)
        if token.mark == b",":
            token = next(tokens)
        elif token.mark != b"]":
            raise _bad("a comma or ] should be here", token.at)
    return found


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the JSON text is damaged: {what}", offset=at)
