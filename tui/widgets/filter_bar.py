"""The line a filter is typed into: live, a little delayed, wrong parts underlined."""

from __future__ import annotations

from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from tui.keys import KeyScope, bindings
from tui.style import theme
from tui.widgets.plain_input import PlainInput

DEBOUNCE = 0.08
"""Seconds without a key before the filter is asked for."""


class WrongPart(Highlighter):
    """Underlines from ``start`` to ``end``; nothing if they are equal."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.style = Style(underline=True, bold=True)

    def highlight(self, text: Text) -> None:
        """Underline the wrong part of *text*."""
        if self.end > self.start:
            text.stylize(self.style, self.start, self.end)


class FilterInput(PlainInput):
    """The text field; enter and escape tell the bar."""

    BINDINGS = bindings(KeyScope.FILTER)

    class Accepted(Message):
        """The filter is to be kept."""

    class Cleared(Message):
        """The filter is to be dropped."""

    def action_accept(self) -> None:
        """Keep the filter."""
        self.post_message(self.Accepted())

    def action_clear(self) -> None:
        """Drop the filter."""
        self.post_message(self.Cleared())


class FilterBar(Horizontal):
    """``/``, the filter's text, and how many rows it leaves or what is wrong with it."""

    COMPONENT_CLASSES = {"filter-bar--wrong"}  # noqa: RUF012 - as the framework types it

    class Changed(Message):
        """The text changed and no key came for ``DEBOUNCE`` seconds."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - the framework's name
        super().__init__(id=id)
        self._wrong = WrongPart()
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        """Sign, text field, message."""
        yield Static("/", id="filter-sign", markup=False)
        field = FilterInput(
            highlighter=self._wrong,
            placeholder="cos<0.99 type:MatMul* state:origin !type:Cast",
            compact=True,
            select_on_focus=False,
        )
        field.cursor_blink = False
        yield field
        yield Static("", id="filter-message", markup=False)

    @property
    def text(self) -> str:
        """What is in the field."""
        return self.query_one(FilterInput).value

    @text.setter
    def text(self, text: str) -> None:
        with self.prevent(Input.Changed):
            self.query_one(FilterInput).value = text
        self.show_right("")

    @property
    def wrong_span(self) -> tuple[int, int] | None:
        """Start and end of the part that is underlined, None if nothing is wrong."""
        wrong = self._wrong
        return (wrong.start, wrong.end) if wrong.end > wrong.start else None

    @property
    def waiting(self) -> bool:
        """True while a typed key has not been told yet."""
        return self._timer is not None

    def focus_field(self) -> None:
        """Let the user type."""
        self.query_one(FilterInput).focus()

    def show_right(self, message: str) -> None:
        """Nothing is wrong; say *message*."""
        self._wrong.start = self._wrong.end = 0
        self._say(Content.styled(message, theme.QUIET))

    def show_wrong(self, start: int, end: int, message: str) -> None:
        """Underline the wrong part and say what is wrong."""
        self._wrong.style = self.get_component_rich_style("filter-bar--wrong", partial=True)
        self._wrong.start, self._wrong.end = start, max(end, start + 1)
        self._say(Content.styled(message, theme.ERROR))

    def flush(self) -> None:
        """Tell of the present text at once."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
            self.post_message(self.Changed(self.text))

    def _say(self, message: Content) -> None:
        self.query_one("#filter-message", Static).update(message)
        self.query_one(FilterInput).refresh()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(DEBOUNCE, self.flush)
