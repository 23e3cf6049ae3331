"""A bordered pane with a drawing made for its present width and height."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.geometry import Size

from tui.terminal.pixels import Picture, PlacedPicture
from tui.widgets.titled import Titled

Draw = Callable[[int, int], Content]
Paint = Callable[[int, int], Picture | None]


class Plot(Titled, can_focus=True):
    """Shows what ``draw(width, height)`` returns, in cells; asked again when the size changes."""

    ALLOW_MAXIMIZE = True

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.full_title = title
        self._draw: Draw = lambda _width, _height: Content("")
        self._paint: Paint | None = None
        self._painted: tuple[Size, Picture | None] | None = None

    def show(self, draw: Draw, paint: Paint | None = None) -> None:
        """Show this drawing, and over it, where the terminal can, the picture ``paint(width,
        height)`` returns, whose place is in cells of the pane."""
        self._draw, self._paint, self._painted = draw, paint, None
        self.refresh()

    def placed_picture(self) -> PlacedPicture | None:
        """The picture where it stands on the screen; None if there is none, or not all of it
        would be seen."""
        if self._paint is None or not self.is_attached or not self.size:
            return None
        if self._painted is None or self._painted[0] != self.size:
            self._painted = self.size, self._paint(*self.size)
        picture = self._painted[1]
        if picture is None or not picture.place.area:
            return None
        region = picture.place.translate(self.content_region.offset)
        seen = self.screen.find_widget(self).visible_region
        return PlacedPicture(picture, region) if seen.contains_region(region) else None

    def notify_style_update(self) -> None:
        """Paint anew in other colours."""
        super().notify_style_update()
        self._painted = None

    def on_resize(self) -> None:
        """Fit the title; the drawing is made anew with the frame."""
        self.fit_title()

    def render(self) -> Content:
        """The drawing for the present size."""
        width, height = self.size
        return self._draw(width, height) if width > 0 and height > 0 else Content("")
