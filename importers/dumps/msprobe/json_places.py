"""A JSON file of any size as nested values, long texts told by their place.

Dumps as JSON are mostly base64: those texts stay in the file, which is mapped.
"""

from __future__ import annotations

import json
import mmap
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from importers.dumps.index import DamagedError

LONG_TEXT = 64
"""Texts of more bytes are told by their place, names of members always as text. The
shortest ``.npy`` takes 108 bytes as base64."""

MAX_DEPTH = 64
_MAX_NAME = 1 << 16
_MAX_REST = 16 << 20
"""Bytes of JSON that may stand around the long texts."""

# Possessive: a text of a gigabyte must not leave a way back for each of its bytes.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_MARK = re.compile(r"\0(\d{1,8})")


@dataclass(frozen=True, slots=True)
class TextPlace:
    """The bytes of a long text between its quotes, as they are in the file."""

    offset: int
    length: int


Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | float | bool | TextPlace | None"
Buffer: TypeAlias = bytes | mmap.mmap


def read_places(data: Buffer) -> Value:
    """The one JSON value in *data*.

    Raises:
        DamagedError: no JSON, nested deeper than :data:`MAX_DEPTH`, or too many values;
            says at which byte.
    """
    rest = bytearray()
    places: list[TextPlace] = []
    cuts = [(0, 0)]  # up to where of the rest, and as many bytes further in the file
    at = 0
    for found in _TEXT.finditer(data):
        start, end = found.span()
        if end - start - 2 > LONG_TEXT:
            rest += data[at:start]
            rest += b'"\\u0000%d"' % len(places)
            places.append(TextPlace(start + 1, end - start - 2))
            cuts.append((len(rest), end - len(rest)))
            at = end
            if len(rest) > _MAX_REST:
                break
    if len(rest) + len(data) - at > _MAX_REST:
        raise _bad(f"more than {_MAX_REST} bytes besides its long texts", at)
    rest += data[at:]
    try:
        return _placed(json.loads(rest), places, data, MAX_DEPTH)
    except json.JSONDecodeError as error:
        place = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        moved = next(by for start, by in reversed(cuts) if start <= place)
        raise _bad(error.msg, place + moved) from None
    except (ValueError, RecursionError) as error:
        raise _bad(str(error) or f"nested deeper than {MAX_DEPTH}", 0) from None


def _placed(value: Any, places: list[TextPlace], data: Buffer, depth: int) -> Value:
    """*value* with the places of the texts that were left out."""
    if isinstance(value, str):
        mark = _MARK.fullmatch(value)
        number = int(mark[1]) if mark else len(places)
        return places[number] if number < len(places) else value
    if not isinstance(value, list | dict):
        plain: Value = value
        return plain
    if depth == 0:
        raise _bad(f"nested deeper than {MAX_DEPTH}", 0)
    if isinstance(value, list):
        return [_placed(inner, places, data, depth - 1) for inner in value]
    return {
        _name(_placed(name, places, data, depth), data): _placed(inner, places, data, depth - 1)
        for name, inner in value.items()
    }


def _name(name: Value, data: Buffer) -> str:
    if isinstance(name, TextPlace) and name.length <= _MAX_NAME:
        name = json.loads(data[name.offset - 1 : name.offset + name.length + 1])
    if not isinstance(name, str):
        raise _bad(f"a name of more than {_MAX_NAME} bytes", 0)
    return name


def _bad(what: str, at: int) -> DamagedError:
    return DamagedError(f"the JSON text is damaged: {what}", offset=at)
