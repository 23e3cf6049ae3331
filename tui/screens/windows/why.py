"""What to do next, and why an op is judged as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from tui.messages import ask
from tui.render.why_text import why_text
from tui.screens.windows.overlays import Overlay
from tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from divergraph.ask.advisor.advisor import Advice
    from graphstore.model import Run
    from tui.session import Session
    from tui.style.glyphs import Glyphs


class WhyOverlay(Overlay):
    """The advice on the run, and the reckoning of the op under the cursor."""

    def __init__(self, glyphs: Glyphs, session: Session, op: str) -> None:
        super().__init__(glyphs, "What next, and why")
        self._session, self._op = session, op
        self.waiting = True

    def content(self) -> Widget:
        """The text."""
        return TextPane()

    def on_mount(self) -> None:
        """Ask for the advice, which reads the whole run."""
        pane = self.query_one(TextPane)
        pane.show(lambda _: Content("loading"))
        pane.focus()
        session = self._session
        ask(
            self,
            "why",
            lambda: (session.overview().run, session.advice()),
            lambda answer: self._show(*answer),
        )

    def _show(self, run: Run, advice: Advice) -> None:
        self.waiting, op = False, self._op
        self.query_one(TextPane).show(lambda width: why_text(run, advice, op, width))
