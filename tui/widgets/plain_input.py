"""A text field that shows what cannot be printed as a question mark, and keeps it."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import Input


class PlainInput(Input):
    """A field for names of models and files: the terminal obeys nothing in them."""

    def render_line(self, y: int) -> Strip:
        """One line; a character each, so that the cursor stands where it is."""
        strip = super().render_line(y)
        if strip.text.isprintable():
            return strip
        segments = (Segment(_printable(text), style) for text, style, _ in strip)
        return Strip(segments).crop(0, self.size.width)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
