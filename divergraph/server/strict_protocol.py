"""HTTP as uvicorn speaks it, within limits: heads that are too large or do not end, and clients
that neither send nor read, lose their connection."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from divergraph.server.problems import MEDIA_TYPE, of_status
from divergraph.server.settings import Limits

_BETWEEN = 4
"""Bytes of a line of a head that are neither name nor value."""


_SAID = {
    HTTPStatus.BAD_REQUEST: "this is no HTTP",
    HTTPStatus.REQUEST_TIMEOUT: "the head of the request took too long",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the head of the request is too large",
}
_LAST_SECONDS = 1.0
"""For so long a client that is refused may go on sending, into nothing."""


class StrictProtocol(HttpToolsProtocol):
    """A connection; :func:`strict_protocol` gives the class its limits."""

    limits = Limits()
    _in_head = True
    _head = 0
    """Bytes of what is understood of a head."""
    _raw = 0
    """Bytes that came in vain: a line that does not end is not understood."""
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        for timer in (self._waiting, self._unread, self._ending):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes came."""
        if self._refused:
            return
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head:
            self._raw += len(data)
            if self._raw > self.limits.head:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._head, self._raw = True, 0, 0
        self._await_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the address came."""
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        self._take(len(name) + len(value) + _BETWEEN)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head has come."""
        self._in_head = False
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._refuse(HTTPStatus.BAD_REQUEST)

    def on_response_complete(self) -> None:
        """An answer is out; of a body that nobody waits for the rest must come soon."""
        super().on_response_complete()
        if self.cycle.more_body and self._ending is None:
            self._ending = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def on_message_complete(self) -> None:
        """A body has come."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        super().pause_writing()
        if self._unread is None:
            seconds = self.limits.unread_seconds
            self._unread = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _await_head(self) -> None:
        if self._waiting is None:
            seconds, late = self.limits.head_seconds, HTTPStatus.REQUEST_TIMEOUT
            self._waiting = self.loop.call_later(seconds, self._refuse, late)

    def _take(self, size: int) -> None:
        self._head += size
        if self._head > self.limits.head:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            raise ValueError("the head is too large")  # ends the parser's work

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why, and hang up; answers that were asked for before are lost."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        body = bytes(of_status(status, _SAID[status]).response().body)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\n"
            f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if not self.transport.can_write_eof():  # TLS
            self.transport.close()
            return
        # Hanging up on what still comes would take from the client what was just said.
        self.transport.write_eof()
        self._ending = self.loop.call_later(_LAST_SECONDS, self.transport.abort)


def strict_protocol(limits: Limits) -> type[StrictProtocol]:
    """The protocol with these limits."""
    return type("LimitedProtocol", (StrictProtocol,), {"limits": limits})
