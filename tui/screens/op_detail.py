"""The panes about one op, below the list of ops."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from divergraph.text.printable import printable
from tui.messages import ask
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
        self.ask(
            "detail",
            lambda: self.owner.session.detail(op),
            lambda detail: self._show_detail(detail, whole=whole),
        )

    def _show_waiting(self) -> None:
        op_id = "" if self._detail is None else self._detail.row.id
        if self._awaited and op_id != self._awaited:
            name = self._awaited
            self._show_no_detail()
            facts = self.query_one("#facts", TextPane)
            facts.name_pane(name)
            facts.show(lambda _: Content("loading"))

    def _show_detail(self, detail: OpDetail, *, whole: bool) -> None:
        """Show the detail of an op in the panes, and *whole* in a window, too."""
        glyphs = self.owner.settings.glyphs
        if detail.row.id == self._awaited:
            self._awaited = ""
        self._detail = detail
        if whole:
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
        session = self.owner.session

        def keep(text: str | None) -> None:
            if text is not None:
                session.note("note", "add", session.target, op, text)
                kept = partial(session.add_note, op, text)
                ask(self, "note", kept, lambda _: self.ask_detail(op, whole=False), exclusive=False)

        self.app.push_screen(form, keep)

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
