"""Titles of panes, cut by us: the framework's own cut is not ASCII."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from divergraph.text.printable import printable
from tui.widgets.cells import cut_to

CUT = ".."
_BORDER = 6


class Titled(Widget):
    """A pane whose title fits its border in every width."""

    full_title = ""

    def name_pane(self, title: str) -> None:
        """Give the pane *title*; control characters in it are not drawn."""
        self.full_title = printable(title)
        self.fit_title()

    def fit_title(self) -> None:
        """Cut the title to the present width."""
        room = max(0, self.outer_size.width - _BORDER)
        self.border_title = Content(cut_to(self.full_title, room, CUT) if room else "")
