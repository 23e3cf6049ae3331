"""Text in terminal cells: cut to a width, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich.cells import cell_len, get_character_cell_size

Align = Literal["left", "right"]
Cut = Literal["name", "left", "right"]
"""What is cut of a text: of a ``name`` what others of the list have as well."""


def width_of(text: str) -> int:
    """Cells *text* takes, which is not its length for wide and combining characters."""
    return len(text) if text.isascii() else cell_len(text)


def cut_to(text: str, width: int, ellipsis: str, cut: Cut = "right") -> str:
    """*text* in at most *width* cells; *ellipsis* stands where something was cut.

    ``cut`` says which end goes: op names differ at their ends, so they are cut left.
    """
    if width_of(text) <= width:
        return text
    room = width - width_of(ellipsis)
    if room < 0:
        return ""
    head = _head(text, room) if cut == "right" else _head(text[::-1], room)[::-1]
    return head + ellipsis if cut == "right" else ellipsis + head


def _head(text: str, room: int) -> str:
    if text.isascii():
        return text[:room]
    used = 0
    for position, char in enumerate(text):
        used += get_character_cell_size(char)
        if used > room:
            return text[:position]
    return text


def fit(text: str, width: int, ellipsis: str, align: Align = "left", cut: Cut = "right") -> str:
    """*text* in exactly *width* cells: cut if too long, else filled with blanks."""
    text = cut_to(text, width, ellipsis, cut)
    blank = " " * (width - width_of(text))
    return blank + text if align == "right" else text + blank


def joined(parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Texts with their styles, neighbours of one style as one."""
    runs: list[tuple[str, str]] = []
    for text, style in parts:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return runs
