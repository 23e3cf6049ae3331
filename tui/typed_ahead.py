"""Keys typed right behind one that opens a field or a window: they belong to what it opens.

The framework sends every key at once to the widget that has the focus at that moment. After a
paste, or over a slow line, the letters behind ``/`` are thus sent before the field is there, and
would run as commands. Here they are held back until it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from textual.app import App
from textual.events import Event, Key, Paste
from textual.screen import Screen
from textual.widgets import Input

from tui.keys import Key as TableKey
from tui.screens.base import ViewScreen

_FIELDS = frozenset({"filter.open", "commands"})
_WINDOWS = frozenset(
    "yank log help words why part.export part.tried jobs.new jobs.again jobs.log jobs.stop "
    "start.compare start.import start.capture".split()
)
"""The keys that open a field, and those that open a window, by their ids in the table."""

_LONGEST, _STEP = 0.5, 0.01
"""Seconds until held keys go on where nothing was opened, and between two looks at it."""


class TypedAhead:
    """Holds typed keys of *app* back; ``send`` is how the app handles one of them."""

    def __init__(
        self, app: App[None], table: Sequence[TableKey], send: Callable[[Event], Awaitable[None]]
    ) -> None:
        self._app = app
        self._send = send
        self._opening = {
            (key.scope, name.strip()): key.id
            for key in table
            if key.id in _FIELDS | _WINDOWS
            for name in key.keys.split(",")
        }
        self._held: list[Event] | None = None
        self._is_open = self._field
        self._under: Screen[object] | None = None
        self._left = 0.0

    @property
    def waiting(self) -> bool:
        """Whether what a key opens is not there yet."""
        return self._held is not None

    def holds(self, event: Event) -> bool:
        """Whether *event* waits; a key that opens something makes the next ones wait."""
        if not isinstance(event, Key | Paste) or event.is_forwarded:
            return False
        if self._held is not None:
            self._held.append(event)
            return True
        if isinstance(event, Key) and not self._field() and (opening := self._opened_by(event)):
            self._held, self._left = [], _LONGEST
            self._is_open = self._field if opening in _FIELDS else self._window
            self._under = self._app.screen
            self._app.set_timer(_STEP, self._look)
        return False

    def _opened_by(self, event: Key) -> str:
        """The id of the key if it opens something in the view on screen; else empty."""
        screen = self._app.screen
        if not isinstance(screen, ViewScreen):
            return ""
        ids = (self._opening.get((scope, event.key), "") for scope in screen.SCOPES)
        widget_id = next(filter(None, ids), "")
        return "" if screen.why_not(widget_id) else widget_id

    def _field(self) -> bool:
        return isinstance(self._app.focused, Input)

    def _window(self) -> bool:
        screen = self._app.screen
        return screen is not self._under and screen.focused is not None

    async def _look(self) -> None:
        """Let the held keys go if something was opened, or after a while."""
        self._left -= _STEP
        if not self._is_open() and self._left > 0:
            self._app.set_timer(_STEP, self._look)
            return
        events, self._held = self._held or [], None
        for number, event in enumerate(events):
            if self.holds(event):  # one of them opened something in its turn
                return
            await self._send(event)
            if self._held is not None:
                self._held.extend(events[number + 1 :])
                return
