"""What is kept of an attribute, large ones as a short text; and short texts of many names."""

from __future__ import annotations

from collections.abc import Sequence

from graphstore.model import AttrValue, DType, Shape

MAX_TEXT = 4096
"""Characters of a text attribute that are kept."""

MAX_ITEMS = 1024
"""Elements of a list attribute that are kept; longer ones are tables or weights."""

MAX_PORT = 1 << 16
"""Output ports past this are taken as damage: no op has so many outputs."""


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


def some(names: Sequence[str], shown: int = 3) -> str:
    """The first few of *names*, and how many more there are."""
    listed = ", ".join(names[:shown])
    return listed if len(names) <= shown else f"{listed} and {len(names) - shown} more"


CALLS_ITSELF = (
    "call of a function inside itself was not expanded",
    "calls of a function inside itself were not expanded",
)
TOO_MANY_CALLS = (
    "call was not expanded, there are too many",
    "calls were not expanded, there are too many",
)
"""What is said of one call of a function that stays an op, and of several."""


def told_of(names: Sequence[str], one: str, many: str) -> str:
    """How many *names* there are, what is *one* or are *many* of them, and the first few."""
    return f"{len(names)} {one if len(names) == 1 else many}: {some(names)}"
