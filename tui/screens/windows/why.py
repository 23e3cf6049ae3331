"""What to do next, and why an op is judged as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from graphstore.errors import DivergraphError
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

    class Advised(Message):
        """The advice is there."""

        def __init__(self, run: Run, advice: Advice) -> None:
            super().__init__()
            self.run, self.advice = run, advice

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
        self._ask()

    @work(thread=True, exclusive=True, group="why", exit_on_error=False)
    def _ask(self) -> None:
        worker = get_current_worker()
        try:
            session = self._session
            run, advice = session.overview().run, session.advice()
        except DivergraphError as error:
            self.notify(str(error), severity="error")
        else:
            if not worker.is_cancelled:
                self.post_message(self.Advised(run, advice))

    @on(Advised)
    def _show(self, event: Advised) -> None:
        self.waiting = False
        run, advice, op = event.run, event.advice, self._op
        self.query_one(TextPane).show(lambda width: why_text(run, advice, op, width))
