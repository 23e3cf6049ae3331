"""A bordered, scrolling pane of text that is built for the width it gets."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tui.keys import KeyScope, bindings
from tui.widgets.titled import Titled

Build = Callable[[int], Content]


class TextPane(VerticalScroll, Titled, can_focus=True):
    """Shows what ``build(width)`` returns; asked again when the width changes."""

    # The scrolling base stands first: the framework takes default styles along first bases.

    # A bar that comes and goes would change the width the text was built for.
    DEFAULT_CSS = "TextPane { overflow-y: scroll; }"
    ALLOW_MAXIMIZE = True
    BINDINGS = bindings(KeyScope.TEXT)

    def __init__(
        self,
        title: str = "",
        *,
        id: str | None = None,  # noqa: A002 - the framework's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.full_title = title
        self._build: Build = lambda _: Content("")

    def compose(self) -> ComposeResult:
        """One text, which the pane scrolls."""
        text = Static(markup=False)
        text.auto_links = False  # what can be clicked keeps its colours
        yield text

    def show(self, build: Build) -> None:
        """Show this text from its top."""
        self._build = build
        self._draw()
        self.scroll_home(animate=False)

    def renew(self, build: Build) -> None:
        """Show this text from where the user has scrolled to."""
        self._build = build
        self._draw()

    def on_resize(self) -> None:
        """Build the text for the new width."""
        self.fit_title()
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if width:
            self.query_one(Static).update(self._build(width))
