"""Reports the progress of work in a thread to a view, and stops that work."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stages:
    """Progress of one job. ``tell`` gets a line for each stage and step.

    Once :attr:`stop_with` is set, a step after :meth:`stop` raises it in the thread of
    the work.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._stage = ""
        self._done = 0
        self._stop = threading.Event()
        self.stop_with: Exception | None = None

    @property
    def stoppable(self) -> bool:
        """True if the work can be stopped."""
        return self.stop_with is not None

    def stop(self) -> None:
        """Stop at the next step."""
        self._stop.set()

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins."""
        self._stage, self._done = text, 0
        self._tell(text)

    def step(self, amount: int = 1, note: str = "") -> None:
        """*amount* steps are done."""
        self._done += amount
        self._tell(f"{self._stage}: {self._done}" + (f", {note}" if note else ""))
        if self._stop.is_set() and self.stop_with is not None:
            raise self.stop_with
