"""An op with all that it reads and all that reads it, and the tensors on the edges between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from tui.keys import KeyScope, bindings
from tui.messages import ask
from tui.render.neighbour_rows import NeighbourRows
from tui.screens.windows.overlays import Overlay, Window
from tui.widgets.row_list import RowList
from tui.widgets.rows import FixedRows

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail
    from tui.session import Session
    from tui.style.glyphs import Glyphs


class NeighbourhoodOverlay(Overlay):
    """A drawing to walk in: an arrow to the side draws what is around the op under the cursor,
    enter goes there in the view behind."""

    BINDINGS = bindings(KeyScope.AROUND)
    foot = "enter goes there, right walks on, left walks back, esc closes"

    def __init__(self, glyphs: Glyphs, session: Session, op: str) -> None:
        super().__init__(glyphs, f"Around {op}")
        self._session, self._op = session, op
        self._rows: NeighbourRows | None = None
        self._path: list[str] = []

    def content(self) -> Widget:
        """A row for each edge, the op between."""
        return RowList(FixedRows(()), self.glyphs, empty="loading")

    def on_mount(self) -> None:
        """Ask for the edges."""
        super().on_mount()

        self.query_one(RowList).focus()
        self._ask(self._op)

    @property
    def waiting(self) -> bool:
        """True until the edges are drawn."""
        return self._rows is None or self._rows.op != self._op

    def _ask(self, op: str) -> None:
        ask(self, "around", lambda: self._session.detail(op), self._draw)

    def _draw(self, detail: OpDetail) -> None:
        self._op = detail.row.id
        self._rows = NeighbourRows(detail, self.glyphs)
        self.query_one(Window).name_pane(f"Around {self._op}")
        self.query_one(RowList).show(self._rows, cursor=self._rows.centre)

    def action_walk(self, direction: int) -> None:
        """Draw around the op under the cursor, or (-1) around the one before."""
        if self._rows is None:
            return
        if direction < 0:
            if self._path:
                self._op = self._path.pop()
                self._ask(self._op)
            return
        op = self._rows.op_at(self.query_one(RowList).cursor)
        if op and op != self._op:
            self._path.append(self._op)
            self._op = op
            self._ask(op)

    def on_row_list_opened(self, event: RowList.Opened) -> None:
        """Go to the op of the row."""
        op = "" if self._rows is None else self._rows.op_at(event.index)
        if op:
            self.dismiss(op)
        else:
            self.notify("no op makes it: a weight or an input of the model", severity="warning")
