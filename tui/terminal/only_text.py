"""A filter for every line of the screen, whichever widget drew it, against terminal control
characters.

Every widget of the app, also those of the framework, hands its lines to these filters before they
are written. Views show such characters as escapes; this catches any text they missed.
"""

from __future__ import annotations

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter


class OnlyText(LineFilter):
    """Takes each character that has no shape of its own out of lines, keeping their width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """*segments* with question marks for such characters, as many as the cells they took."""
        return [
            segment
            if segment.text.isprintable()
            else Segment(only_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def only_text(text: str) -> str:
    """*text* without characters that are not printable, in as many cells."""
    return "".join(
        char if char.isprintable() else "?" * get_character_cell_size(char) for char in text
    )
