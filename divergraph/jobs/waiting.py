"""Waiting for other threads so that Ctrl-C is heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

_LOOK_SECONDS = 0.2


def _nothing() -> None:
    """Look at nothing meanwhile."""


def wait_interruptible(work: Iterable[Future[Any]], look: Callable[[], None] = _nothing) -> None:
    """Return when all is done, *look* is called meanwhile.

    One long wait would not hear a signal on every system.

    Raises:
        KeyboardInterrupt: the user stopped it; the work goes on.
    """
    waiting = list(work)
    while wait(waiting, _LOOK_SECONDS).not_done:
        look()
