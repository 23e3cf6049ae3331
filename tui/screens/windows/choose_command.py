"""Which command is to be started as a job."""

from __future__ import annotations

from collections.abc import Mapping

from tui.screens.windows.overlays import ChoiceOverlay
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell


class ChooseCommandOverlay(ChoiceOverlay):
    """The commands with what each does; enter takes one."""

    foot = "enter opens its form, esc closes"

    def __init__(self, glyphs: Glyphs, titles: Mapping[str, str]) -> None:

        columns = (
            ListColumn("command", "command", 10, sortable=False),
            ListColumn("does", "what it does", 30, 100, sortable=False),
        )
        rows = [(Cell(name, "linked"), Cell(title)) for name, title in titles.items()]
        super().__init__(glyphs, "Start a job", columns, rows, list(titles))
