"""What becomes of running jobs when the user leaves."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widget import Widget

from tui.jobs.job_words import now
from tui.jobs.watched import JobLook
from tui.keys import KeyScope, bindings
from tui.screens.windows.overlays import Overlay
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows

GO_ON, STOP = "go on", "stop"


class LeaveOverlay(Overlay):
    """Asks; its result is one of the choices, None to stay."""

    BINDINGS = bindings(KeyScope.LEAVING)
    foot = "enter chooses, esc stays"

    def __init__(self, glyphs: Glyphs, running: Sequence[JobLook]) -> None:
        super().__init__(glyphs, f"{wording.count(len(running), 'job')} still running")
        self._still_running = running

    def content(self) -> Widget:
        """The jobs, then what can become of them."""
        first = self._still_running[-1]
        about = f"{first.command} {first.target[0]}".strip()
        text = f"{about}: {now(first)}"
        if len(self._still_running) > 1:
            text += f", and {len(self._still_running) - 1} more"
        columns = (
            ListColumn("key", "key", 3, sortable=False),
            ListColumn("what", "what", 24, sortable=False),
            ListColumn("about", text, 20, 100, sortable=False),
        )
        rows = [
            (Cell("b", "linked"), Cell("leave, let it go on"), Cell("8 finds it again", "quiet")),
            (Cell("X", "linked"), Cell("stop it, and leave"), Cell("nothing is kept", "quiet")),
            (Cell("esc", "linked"), Cell("stay"), Cell("")),
        ]
        return RowList(FixedRows(columns, rows), self.glyphs)

    def action_leave(self, choice: str) -> None:
        """Leave so."""
        self.dismiss(choice)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Take the choice of the row."""
        self.dismiss((GO_ON, STOP, None)[event.index])
