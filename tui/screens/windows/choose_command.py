"""Which command is to be started as a job."""

from __future__ import annotations

from collections.abc import Mapping

from textual.widget import Widget

from tui.screens.windows.overlays import Overlay
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows


class ChooseCommandOverlay(Overlay):
    """The commands with what each does; enter takes one."""

    foot = "enter opens its form, esc closes"

    def __init__(self, glyphs: Glyphs, titles: Mapping[str, str]) -> None:
        super().__init__(glyphs, "Start a job")
        self._titles = titles

    def content(self) -> Widget:
        """One row a command."""
        columns = (
            ListColumn("command", "command", 10, sortable=False),
            ListColumn("does", "what it does", 30, 100, sortable=False),
        )
        rows = [(Cell(name, "linked"), Cell(title)) for name, title in self._titles.items()]
        return RowList(FixedRows(columns, rows), self.glyphs)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Take the command of the row."""
        self.dismiss(list(self._titles)[event.index])
