"""A window that asks for one line of text."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.keys import KeyScope, bindings
from tui.screens.windows.overlays import Window
from tui.style import theme
from tui.style.glyphs import Glyphs
from tui.widgets.plain_input import PlainInput


class LineForm(ModalScreen[str | None]):
    """Asks for a line; enter gives it, escape gives None."""

    BINDINGS = bindings(KeyScope.ASKED)

    def __init__(self, glyphs: Glyphs, title: str, text: str = "", note: str = "") -> None:
        super().__init__(classes="-ascii" if glyphs.name == "ascii" else "")
        self._title, self._text, self._note = title, text, note

    def compose(self) -> ComposeResult:
        """The field and what it is for."""
        with Window(classes="window line"):
            field = PlainInput(self._text, compact=True)
            field.cursor_blink = False
            yield field
            yield Static(Content.styled(self._note, theme.QUIET), markup=False)

    def on_mount(self) -> None:
        """Name the window."""
        window = self.query_one(Window)
        window.name_pane(self._title)
        window.border_subtitle = Content("enter accepts, esc closes")

    @on(Input.Submitted)
    def _accepted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)
