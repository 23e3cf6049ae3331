"""The panes about one op, below the list of ops."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.message import Message
from textual.worker import get_current_worker

from divergraph.text.printable import printable
from graphstore.errors import DivergraphError
from tui.render import detail_text
from tui.screens.base import ViewScreen
from tui.screens.windows.line_form import LineForm
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from divergraph.ask.answers import OpDetail


_SOON = 0.15
"""Seconds an answer may take without a word."""


class DetailScreen(ViewScreen):
    """A view with the facts and the metrics of one op, and a window with all of it."""

    class Detailed(Message):
        """The detail of an op; ``whole`` opens it as a window."""

        def __init__(self, detail: OpDetail, *, whole: bool) -> None:
            super().__init__()
            self.detail = detail
            self.whole = whole

    def __init__(self) -> None:
        super().__init__()
        self._limits: Mapping[str, float] = {}
        self._detail: OpDetail | None = None
        self._awaited = ""

    def _show_no_detail(self) -> None:
        self._detail = None
        for pane, title in (("#facts", "Op"), ("#metrics", "Metrics")):
            text_pane = self.query_one(pane, TextPane)
            text_pane.name_pane(title)
            text_pane.show(lambda _: Content(""))

    def ask_detail(self, op: str, *, whole: bool) -> None:
        """Ask for the detail of *op*; where that takes long, the panes show no other op's
        meanwhile."""
        self._awaited = op
        self.set_timer(_SOON, self._show_waiting)
        self._ask_detail(op, whole=whole)

    def _show_waiting(self) -> None:
        op_id = "" if self._detail is None else self._detail.row.id
        if self._awaited and op_id != self._awaited:
            name = self._awaited
            self._show_no_detail()
            facts = self.query_one("#facts", TextPane)
            facts.name_pane(name)
            facts.show(lambda _: Content("loading"))

    @work(thread=True, exclusive=True, group="detail", exit_on_error=False)
    def _ask_detail(self, op: str, *, whole: bool) -> None:
        worker, session = get_current_worker(), self.owner.session

        def ask() -> None:
            detail = session.detail(op)
            if not worker.is_cancelled:
                self.post_message(self.Detailed(detail, whole=whole))

        self.answer(ask)

    @on(Detailed)
    def _show_detail(self, event: Detailed) -> None:
        detail, glyphs = event.detail, self.owner.settings.glyphs
        if detail.row.id == self._awaited:
            self._awaited = ""
        self._detail = detail
        if event.whole:
            session = self.owner.session
            if session.kind == "run":
                session.note("lineage", session.target, detail.row.id)
            self.owner.show_text(printable(detail.row.id), self._whole)
        facts, metrics = self.query_one("#facts", TextPane), self.query_one("#metrics", TextPane)
        fused = f" {glyphs.fused}{detail.row.fused}" if detail.row.fused > 1 else ""
        facts.name_pane(detail.row.id + fused)
        output = detail.row.output
        metrics.name_pane("Metrics" if output is None else f"Output {output}: metrics")
        facts.show(self._facts)
        metrics.show(self._metrics)

    def action_note(self) -> None:
        """Write down what is known of the op."""
        if self._detail is None or self.owner.session.kind != "run":
            self.notify("notes are kept on the ops of a run")
            return
        op = self._detail.row.id
        title, hint = f"Note on {printable(op)}", "for every run of the model"
        form = LineForm(self.owner.settings.glyphs, title, note=hint)
        self.app.push_screen(form, partial(self._note_said, op))

    def _note_said(self, op: str, text: str | None) -> None:
        if text is not None:
            self.owner.session.note("note", "add", self.owner.session.target, op, text)
            self._keep_note(op, text)

    @work(thread=True, group="note", exit_on_error=False)
    def _keep_note(self, op: str, text: str) -> None:
        try:
            self.owner.session.add_note(op, text)
        except DivergraphError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.app.call_from_thread(self.ask_detail, op, whole=False)

    def _facts(self, width: int) -> Content:
        assert self._detail is not None
        glyphs = self.owner.settings.glyphs
        text = detail_text.facts(self._detail, glyphs, width)
        if self.query_one("#metrics").display:
            return text
        return Content("\n").join([text, Content(""), self._metrics(width)])

    def _metrics(self, width: int) -> Content:
        assert self._detail is not None
        if self.owner.session.kind == "graph":
            return Content("an imported graph has no results")
        comparison = detail_text.shown_comparison(self._detail)
        return detail_text.metrics(comparison, self._limits, self.owner.settings.glyphs, width)

    def _whole(self, width: int) -> Content:
        assert self._detail is not None
        return detail_text.whole(self._detail, self._limits, self.owner.settings.glyphs, width)
