"""An op with all that it reads and all that reads it, and the tensors on the edges between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from graphstore.errors import DivergraphError
from tui.keys import KeyScope, bindings
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

    class Detailed(Message):
        """An op and its edges."""

        def __init__(self, detail: OpDetail) -> None:
            super().__init__()
            self.detail = detail

    def __init__(self, glyphs: Glyphs, session: Session, op: str) -> None:
        super().__init__(glyphs, f"Around {op}")
        self._session, self._op = session, op
        self._rows: NeighbourRows | None = None
        self._path: list[str] = []

    def compose(self) -> ComposeResult:
        """The drawing in a window."""
        with Window(classes="window"):
            yield self.content()

    def content(self) -> Widget:
        """A row for each edge, the op between."""
        return RowList(FixedRows(()), self.glyphs, empty="loading")

    def on_mount(self) -> None:
        """Ask for the edges."""
        super().on_mount()
        self.query_one(
            Window
        ).border_subtitle = "enter goes there, right walks on, left walks back, esc closes"
        self.query_one(RowList).focus()
        self._ask(self._op)

    @property
    def waiting(self) -> bool:
        """True until the edges are drawn."""
        return self._rows is None or self._rows.op != self._op

    @work(thread=True, exclusive=True, group="around", exit_on_error=False)
    def _ask(self, op: str) -> None:
        worker = get_current_worker()
        try:
            detail = self._session.detail(op)
        except DivergraphError as error:
            self.notify(str(error), severity="error")
        else:
            if not worker.is_cancelled:
                self.post_message(self.Detailed(detail))

    @on(Detailed)
    def _draw(self, event: Detailed) -> None:
        self._op = event.detail.row.id
        self._rows = NeighbourRows(event.detail, self.glyphs)
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
