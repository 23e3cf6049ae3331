"""A bordered pane with a drawing made for its present width and height."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from tui.widgets.titled import Titled

Draw = Callable[[int, int], Content]


class Plot(Titled, can_focus=True):
    """Shows what ``draw(width, height)`` returns, in cells; asked again when the size changes."""

    ALLOW_MAXIMIZE = True

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.full_title = title
        self._draw: Draw = lambda _width, _height: Content("")

    def show(self, draw: Draw) -> None:
        """Show this drawing."""
        self._draw = draw
        self.refresh()

    def on_resize(self) -> None:
        """Fit the title; the drawing is made anew with the frame."""
        self.fit_title()

    def render(self) -> Content:
        """The drawing for the present size."""
        width, height = self.size
        return self._draw(width, height) if width > 0 and height > 0 else Content("")
