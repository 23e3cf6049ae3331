"""What a slow terminal cannot take yet is not written; the newest is, once it has caught up.

A key that is held moves the cursor thirty times a second. A slow line (a remote shell, a serial
console) takes fewer pictures than that; were all of them written, it would show the list scroll on
seconds after the key was let go.
"""

from __future__ import annotations

from textual.app import App
from textual.driver import Driver

_SECONDS = 0.03
"""So often one looks whether the terminal has caught up."""
_WAITING = 4
"""Texts that may wait to be written: a picture is three or four."""


class Backlog:
    """Pictures of *app* that its terminal could not take."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._is_drawn_later = False

    def holds(self, driver: Driver | None) -> bool:
        """True if a picture must not be written now; what is newest will be, soon."""
        if not _is_behind(driver):
            return False
        if not self._is_drawn_later:
            self._is_drawn_later = True
            self._app.set_timer(_SECONDS, self._draw_newest)
        return True

    def _draw_newest(self) -> None:
        self._is_drawn_later = False
        self._app.screen.refresh()


def _is_behind(driver: Driver | None) -> bool:
    """Whether more than one picture still waits to be written.

    The framework has no public way to ask; where its thread is not found, nothing waits.
    """
    writer = getattr(driver, "_writer_thread", None)
    return writer is not None and writer._queue.qsize() > _WAITING
