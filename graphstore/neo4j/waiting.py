"""An end to waiting for a server: of who cannot wait long, for one that says nothing, and for one
that looks at no clock."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from graphstore.contract import QueryResult
from graphstore.errors import QueryError
from graphstore.neo4j.address import Address

_GRACE_SECONDS = 1.0
"""So long after its time the server may take to end a query by itself."""
_QUIET_SECONDS = 1.5
"""After so long without an answer it is looked whether the server lives."""
_LOOK_SECONDS = 3.0
"""So long a living server may take for four bytes."""
_WATCH_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_SHAKE_SECONDS = 3.0
"""So much longer may a handshake take, on a busy machine."""
_AWAY_SECONDS = 10.0
"""So long nobody waits again for a server that was waited for in vain."""
_HANDSHAKE = bytes.fromhex("6060b017 00000005 00000405 00000004 00000000")
"""How a client of Bolt begins; a server of anything else ends the connection."""

_T = TypeVar("_T")


def _in_thread(ask: Callable[[], _T]) -> Future[_T]:
    """What *ask* will have given, in a thread of its own, in which it can be left to itself."""
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer


def answered_in_time(
    ask: Callable[[], QueryResult],
    timeout: float | None,
    check: Callable[[], object] = lambda: None,
) -> QueryResult:
    """What *ask* gives; a second after its time it is left to itself, in a thread of its own, and
    *check* is called. While it plans, Neo4j looks at no clock.

    Raises:
        QueryError: its time is over, or *ask* says so.
    """
    if timeout is None:
        return ask()
    answer = _in_thread(ask)
    try:
        return answer.result(timeout + _GRACE_SECONDS)
    except TimeoutError:
        if answer.done():
            raise
        check()
        raise QueryError(
            f"the query took longer than {timeout:g} s", hint="narrow it, or raise the time limit"
        ) from None


class Patience:
    """How long a server that is away is waited for: *seconds*; None: as long as is usual."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds, self._away_until = seconds, -math.inf

    @property
    def is_little(self) -> bool:
        """Whether it is less than is usual."""
        return self._seconds is not None

    def connecting(self, usual: float) -> float:
        """How long a connection may take to come."""
        return usual if self._seconds is None else min(usual, self._seconds + _SHAKE_SECONDS)

    def asking(self, usual: float) -> float:
        """How long what is lost is asked again."""
        if self._seconds is None:
            return usual
        return 0.0 if time.monotonic() < self._away_until else self._seconds

    def in_vain(self) -> None:
        """Take note that the server is away."""
        self._away_until = time.monotonic() + _AWAY_SECONDS


class NoPulseError(Exception):
    """The server does not answer anybody."""


class Pulse:
    """Whether the server at *address* answers anybody: a frozen one takes connections and says
    nothing. Only its signs of life tell it from one that works on a long query; Neo4j sends them
    seldom.
    """

    def __init__(self, address: Address) -> None:
        self._place = (address.host, address.port)
        self._looking, self._looked = threading.Lock(), 0.0
        self._gone, self._closed = threading.Event(), threading.Event()

    def answer_of(self, ask: Callable[[], _T]) -> _T:
        """What *ask* gives; it is left to itself, in its thread, if the server stops answering.

        While it does so, nothing is asked.

        Raises:
            NoPulseError: it has stopped.
        """
        if self._gone.is_set():
            raise NoPulseError
        answer = _in_thread(ask)
        while True:
            try:
                return answer.result(_QUIET_SECONDS)
            except TimeoutError:
                if not answer.done() and not self._beats():
                    raise NoPulseError from None
                if answer.done():
                    return answer.result()

    @property
    def is_gone(self) -> bool:
        """Whether it has stopped answering."""
        return self._gone.is_set()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _beats(self) -> bool:
        """Whether it answers now; of several who want to know, one looks."""
        begin = time.monotonic()
        with self._looking:
            if self._looked < begin:
                if not self._gone.is_set() and not self._says_anything(_LOOK_SECONDS):
                    self._gone.set()
                    threading.Thread(target=self._watch, daemon=True).start()
                self._looked = time.monotonic()
            return not self._gone.is_set()

    def _watch(self) -> None:
        """Look until it answers again."""
        while not self._closed.is_set() and not self._says_anything(_WATCH_SECONDS):
            self._closed.wait(_PAUSE_SECONDS)
        self._gone.clear()

    def _says_anything(self, seconds: float) -> bool:
        """Whether the server answers, if only by ending the connection; one without TLS does too
        that wants it."""
        try:
            with socket.create_connection(self._place, timeout=seconds) as wire:
                wire.sendall(_HANDSHAKE)
                wire.recv(1)
        except TimeoutError:
            return False
        except OSError:
            return True  # there is none: that is told at once, and better
        return True
