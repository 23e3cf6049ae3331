"""What is kept of an attribute, large ones as a short text; and short texts of many names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphstore.model import AttrValue, DType, Shape

MAX_TEXT = 4096
"""Characters of a text attribute that are kept."""

_LONGEST_NAME = 300
"""Characters of a name in a note."""

MAX_ITEMS = 1024
"""Elements of a list attribute that are kept; longer ones are tables or weights."""

MAX_PORT = 1 << 16
"""Output ports past this are taken as damage: no op has so many outputs."""


def split_reference(entry: str, *, lowest: int = 0) -> tuple[str, int]:
    """Name and output port of ``name`` or ``name:port``.

    Names may hold colons, so the last one counts, and only before a port that can be: *lowest*
    to :data:`MAX_PORT`. GE's ports go down to -1, which stands for a control edge.
    """
    name, colon, port = entry.rpartition(":")
    digits = port.removeprefix("-")
    # Python refuses to read thousands of digits, and stores keep no port of more than 64 bits.
    if colon and digits.isdecimal() and len(digits) < 20 and lowest <= int(port) <= MAX_PORT:
        return name, int(port)
    return entry, 0


def kept_text(text: str) -> str:
    """*text*, or its beginning and its length."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}... ({len(text)} characters)"


def kept_list(values: Sequence[AttrValue]) -> AttrValue:
    """*values* as a tuple, or only how many there are."""
    return tuple(values) if len(values) <= MAX_ITEMS else f"list of {len(values)}"


def tensor_text(dtype: DType | None, shape: Shape | None) -> str:
    """A tensor in words, e.g. ``tensor float32[3,?]``."""
    dims = "" if shape is None else f"[{','.join('?' if d is None else str(d) for d in shape)}]"
    return f"tensor {dtype.value if dtype else 'of unknown type'}{dims}"


def some(names: Sequence[str], limit: int = 3) -> str:
    """The first few of *names*, and how many more there are."""
    listed = ", ".join(map(_named, names[:limit]))
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


def _named(name: str) -> str:
    """*name*, or both ends of one that would fill a screen."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME // 2]}... ({len(name)} characters) {name[-20:]}"


_CHOICE = re.compile(r"\{(.*?)\|(.*?)\}")


def told_of(names: Sequence[str], what: str) -> list[str]:
    """One line on *names*, none if there are none: how many, *what* they are, the first few.

    *what* has the words for one and for many: ``{input is|inputs are} made by no node``.
    """
    if not names:
        return []
    phrase = _CHOICE.sub(r"\1" if len(names) == 1 else r"\2", what)
    return [f"{len(names)} {phrase}: {some(names)}"]
