"""Names of ops made short so that they stay apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PART = re.compile(r"[/.:]")


def common_start(names: Sequence[str]) -> int:
    """How many letters all *names* begin with alike, up to the end of a part as in ``a/b/``."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)  # what these share, all between them do
    pairs = enumerate(zip(first, last, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(first), len(last)))
    return max((match.end() for match in _PART.finditer(first[:same])), default=0)


def cut_in_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """*text* in at most *width* letters: its start says where it belongs, its end what it is, so
    the end has two thirds."""
    if len(text) <= width:
        return text
    room = max(0, width - len(ellipsis))
    head = room // 3
    return text[:head] + ellipsis + text[len(text) - (room - head) :]
