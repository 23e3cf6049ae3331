"""What becomes of running jobs when the user leaves."""

from __future__ import annotations

from collections.abc import Sequence

from tui.jobs.job_words import now
from tui.jobs.watched import JobLook
from tui.keys import KeyScope, bindings
from tui.screens.windows.overlays import ChoiceOverlay
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.rows import Cell

GO_ON, STOP = "go on", "stop"


class LeaveOverlay(ChoiceOverlay):
    """Asks; its result is one of the choices, None to stay."""

    BINDINGS = bindings(KeyScope.LEAVING)
    foot = "enter chooses, esc stays"

    def __init__(self, glyphs: Glyphs, running: Sequence[JobLook]) -> None:
        first = running[-1]
        about = f"{first.command} {first.target[0]}".strip()
        text = f"{about}: {now(first)}"
        if len(running) > 1:
            text += f", and {len(running) - 1} more"
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
        title = f"{wording.count(len(running), 'job')} still running"
        super().__init__(glyphs, title, columns, rows, (GO_ON, STOP, None))

    def action_leave(self, choice: str) -> None:
        """Leave so."""
        self.dismiss(choice)
