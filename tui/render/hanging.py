"""Words beside a head, on as many lines as they need."""

from __future__ import annotations

import textwrap

from textual.content import Content

from divergraph.text.printable import printable
from tui.style import theme


def hung(
    head: str, words: str, width: int, head_style: str = theme.LINKED, style: str = ""
) -> list[Content]:
    """*words* beside *head*, on as many lines as they need."""
    parts = textwrap.wrap(printable(words), max(20, width - len(head))) or [""]
    first = Content.assemble((head, head_style), (parts[0], style))
    return [first, *(Content.styled(" " * len(head) + part, style) for part in parts[1:])]
