"""Stopping a query from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from graphstore.errors import QueryError

_AGAIN_SECONDS = 0.05
_PATIENCE_SECONDS = 3.0
"""So long after its time an engine may take to end a query."""


class CancelledError(QueryError):
    """The query was stopped by :meth:`Cancellation.cancel`."""

    def __init__(self) -> None:
        super().__init__("the query was stopped")


class Cancellation:
    """Given with a query, its :meth:`cancel` stops that query from any thread.

    One may be given with several queries; all of them are stopped, and those that start
    later raise at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._running: dict[object, Callable[[], None]] = {}
        self.stuck: QueryError | None = None
        """What to say of a query that its engine does not end: who waits may give it up."""

    @property
    def cancelled(self) -> bool:
        """True once :meth:`cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Stop the queries; returns at once. They raise :class:`CancelledError`."""
        if self._cancelled.is_set():
            return
        self._cancelled.set()
        with self._lock:
            running = list(self._running.items())
        for token, stop in running:
            threading.Thread(target=self._stop, args=(token, stop), daemon=True).start()

    def check(self) -> None:
        """Raise CancelledError if cancelled."""
        if self.cancelled:
            raise CancelledError

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While in the block, :meth:`cancel` calls *stop*, again and again until its end.

        An engine forgets a stop that comes just before a query starts.
        """
        token = object()
        with self._lock:
            self._running[token] = stop
        if self.cancelled:  # too late for cancel() to see this one
            with self._lock:
                del self._running[token]
            raise CancelledError
        try:
            yield
        finally:
            with self._lock:
                del self._running[token]

    @contextmanager
    def watching(self, seconds: float | None, late: QueryError) -> Iterator[None]:
        """In the block, :attr:`stuck` becomes *late* if it takes far longer than *seconds*."""
        if seconds is None:
            yield
            return
        timer = threading.Timer(seconds + _PATIENCE_SECONDS, self._stick, (late,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stick(self, late: QueryError) -> None:
        self.stuck = late

    def _stop(self, token: object, stop: Callable[[], None]) -> None:
        pause = threading.Event()
        while True:
            with self._lock:  # so that nothing is stopped that has ended
                if token not in self._running:
                    return
                stop()
            pause.wait(_AGAIN_SECONDS)
