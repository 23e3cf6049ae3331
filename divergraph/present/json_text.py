"""JSON as all front ends write it: values, and whole documents as text.

NaN and infinity are null, and ``notes`` then says which it was and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from json.encoder import encode_basestring as _quoted
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def json_text(shape: Mapping[str, Json], indent: int = 0) -> str:
    """A document as all front ends write it; numbers that are not finite raise ValueError. With
    *indent* as it stands in another document, so many spaces from its edge.

    It is what ``json.dumps(shape, indent=2, ensure_ascii=False, allow_nan=False)`` gives, which
    takes three times as long: its fast encoder knows no indentation.
    """
    return _text(shape, "\n" + " " * indent)


def listing_parts(
    head: Mapping[str, Json], name: str, items: Iterable[str], tail: Mapping[str, Json]
) -> Iterator[str]:
    """The document ``{**head, name: items, **tail}`` of *items* that are text already, indented by
    4, part by part: of a million items none is held. *tail* may be filled while they come."""
    yield f"{json_text(head)[:-2]},\n  {_quoted(name)}: ["
    between, end = "", "]"
    for item in items:
        yield f"{between}\n    {item}"
        between, end = ",", "\n  ]"
    yield f"{end},{json_text(tail)[1:]}"


def _text(value: Any, line: str) -> str:
    """*value* as JSON; *line* is a line end and the indentation of what it stands in."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number in JSON")
        return float.__repr__(value)
    inner = f"{line}  "
    if isinstance(value, dict):
        items = [f"{_quoted(name)}: {_text(entry, inner)}" for name, entry in value.items()]
        return f"{{{inner}{f',{inner}'.join(items)}{line}}}" if items else "{}"
    items = [_text(entry, inner) for entry in value]
    return f"[{inner}{f',{inner}'.join(items)}{line}]" if items else "[]"


def number(value: float | None) -> float | None:
    """A JSON number; null for None, NaN and infinity."""
    return value if value is not None and math.isfinite(value) else None


def plain_json(value: object) -> Json:
    """A value as JSON; text for values without a JSON form."""
    if isinstance(value, Enum):
        return plain_json(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    return str(value)
