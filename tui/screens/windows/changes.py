"""Two runs side by side: what changed from the older to the newer one, op by op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from divergraph.text.numbers import small_number
from divergraph.text.printable import printable
from tui.screens.windows.overlays import Overlay, Window
from tui.style import theme
from tui.style import words as wording
from tui.style.glyphs import Glyphs
from tui.widgets.columns import ListColumn
from tui.widgets.row_list import RowList
from tui.widgets.rows import Cell, FixedRows

if TYPE_CHECKING:
    from divergraph.ask.questions.compare_runs import OpChange, RunChanges

_STYLES = {
    "newly guilty": "origin",
    "newly suspect": "drifting",
    "worse": "inherited",
    "still guilty": "origin",
    "better": "clean",
    "fixed": "clean",
}
"""Styles by kind of change; the kinds are those of ``divergraph compare-runs``."""


class ChangesOverlay(Overlay):
    """The changes, regressions first; enter goes to the op in the newer run."""

    def __init__(self, glyphs: Glyphs, changes: RunChanges) -> None:
        super().__init__(glyphs, f"{changes.old.name} {glyphs.feeds} {changes.new.name}")
        self._changes = changes
        parts = [f"{wording.count(changes.matched, 'original tensor')} in both"]
        parts += [f"{changes.only_old} in the older only"] if changes.only_old else []
        parts += [f"{changes.only_new} in the newer only"] if changes.only_new else []
        self.foot = f"{', '.join(parts)}; enter opens the op, esc closes"

    def compose(self) -> ComposeResult:
        """The list, and below it the sentence of the row under the cursor."""
        with Window(classes="window"):
            yield self.content()
            yield Static("", id="change", markup=False)

    def content(self) -> Widget:
        """A row for each op that changed."""
        changes = self._changes.changes
        rows = [_cells(change, self.glyphs) for change in changes]

        columns = (
            ListColumn("kind", "change", 13, sortable=False),
            ListColumn("op", "op", 16, cut="name", sortable=False),
            ListColumn("old", "old error", 9, align="right", priority=2, sortable=False),
            ListColumn("new", "new error", 9, align="right", priority=2, sortable=False),
            ListColumn("times", "new/old", 8, align="right", priority=1, sortable=False),
        )
        return RowList(FixedRows(columns, rows), self.glyphs, empty="no op changed")

    def on_mount(self) -> None:
        """Put the cursor into the list."""
        self.query_one(RowList).focus()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """Say the change under the cursor in words."""
        op_changes, notes = self._changes.changes, self._changes.notes
        text = (
            op_changes[event.index].sentence
            if 0 <= event.index < len(op_changes)
            else "; ".join(notes)
        )
        self.query_one("#change", Static).update(Content.styled(printable(text), theme.QUIET))

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Go to the op, if the newer run has it."""
        op = self._changes.changes[event.index].op
        if op is None:
            self.notify("the newer run has no such op", severity="warning")
        else:
            self.dismiss(op)


def _cells(change: OpChange, glyphs: Glyphs) -> tuple[Cell, ...]:
    times = "" if change.times is None else f"{small_number(change.times)}{glyphs.times}"
    return (
        Cell(change.kind.value, _STYLES.get(change.kind.value, "unknown")),
        Cell(change.op or change.old_op or change.golden),
        Cell(_error(change.old.error, glyphs)),
        Cell(_error(change.new.error, glyphs)),
        Cell(times),
    )


def _error(value: float | None, glyphs: Glyphs) -> str:
    return glyphs.dash if value is None else small_number(value)
