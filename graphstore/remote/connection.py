"""The wire to a server of ours, for any number of threads, and errors as ours."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import ssl
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from graphstore.cancellation import Cancellation
from graphstore.errors import InputError, QueryError, StoreError
from graphstore.remote.wire import SERVER_HEADER

TOKEN_VARIABLE = "DIVERGRAPH_TOKEN"
_PLACE = "/v1/store/"
_CONNECT_SECONDS = 10.0
_MOST_BYTES, _MOST_OF_PROBLEM = 1 << 31, 1 << 20
"""Bytes of an answer, unpacked, and of a refusal. All columns of a million ops take 300 MiB."""
_NOT_UNDERSTOOD = (ValueError, TypeError, LookupError, AttributeError, zipfile.BadZipFile)
_T = TypeVar("_T")
_ANSWER_SECONDS = 600.0
"""A graph of a million ops takes a slow server this long; one that is gone is known at once."""


class ServerConnection:
    """Asks the server at ``http[s]://host[:port]``; the token is that of the environment.

    A connection that was idle and is lost is made anew once: nothing was answered on it yet. An
    answer takes so many *seconds* at most.
    """

    def __init__(self, url: str, seconds: float = _ANSWER_SECONDS) -> None:
        self._seconds = seconds
        self.url = url.rstrip("/")
        self._address = _address_of(self.url)
        self._idle: list[http.client.HTTPConnection] = []
        self._lock, self._closed = threading.Lock(), False

    def ask(
        self,
        what: str,
        asked: Mapping[str, object] | None = None,
        cancellation: Cancellation | None = None,
    ) -> bytes:
        """The body of the server's answer to *what*, with the fields *asked*.

        Raises:
            QueryError: the server refuses what is asked, or it is cancelled.
            StoreError: the server cannot be used.
        """
        body = json.dumps(asked or {}).encode()
        return self.send("POST", f"{_PLACE}{what}", body, cancellation)

    def read(self, what: str, asked: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The same, as the object it is in JSON."""
        return self.understood(self.ask(what, asked), _object_of)

    def understood(self, data: bytes, parse: Callable[[bytes], _T]) -> _T:
        """An answer as *parse* reads it.

        Raises:
            StoreError: it is not what was asked for.
        """
        try:
            return parse(data)
        except _NOT_UNDERSTOOD as error:
            raise StoreError(
                f"the server's answer cannot be read: {type(error).__name__}: {error}",
                where=self.url,
                hint="server and client may be of different versions",
            ) from error

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        cancellation: Cancellation | None = None,
    ) -> bytes:
        """The body of the answer to a request; errors as of :meth:`ask`."""
        stopped = cancellation or Cancellation()
        with self._lock:
            wire = self._idle.pop() if self._idle else None
        if wire is not None:
            try:
                return self._asked(wire, method, path, body, stopped)
            except (OSError, http.client.HTTPException):
                stopped.check()
        try:
            return self._asked(self._connected(), method, path, body, stopped)
        except (OSError, http.client.HTTPException) as error:
            stopped.check()
            raise self._unreached(error) from error

    def close(self) -> None:
        """Close all connections, those in use when they are answered."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    def _asked(
        self,
        wire: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes,
        stopped: Cancellation,
    ) -> bytes:
        """The answer on *wire*, which is kept for the next question if it is whole."""
        try:
            with stopped.stopping(partial(_cut, wire)):
                status, data = self._answer(wire, method, path, body)
        except BaseException:
            wire.close()
            raise
        with self._lock:
            is_kept = not self._closed and not stopped.cancelled
            if is_kept:
                self._idle.append(wire)
        if not is_kept:
            wire.close()
        if status >= HTTPStatus.BAD_REQUEST:
            raise self._refused(status, data)
        return data

    def _answer(
        self, wire: http.client.HTTPConnection, method: str, path: str, body: bytes
    ) -> tuple[int, bytes]:
        headers = {"Accept-Encoding": "gzip"}
        if body:
            headers["Content-Type"] = "application/json"
        if token := os.environ.get(TOKEN_VARIABLE):
            headers["Authorization"] = f"Bearer {token}"
        wire.request(method, path, body or None, headers)
        # One that is to end its connection holds it by itself: it must be closed, whatever it says.
        with wire.getresponse() as response:
            return response.status, self._body(response)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        is_problem = response.status >= HTTPStatus.BAD_REQUEST
        if not is_problem:
            self._check_is_ours(response)
        packed = response.headers.get("Content-Encoding") == "gzip"
        source = gzip.GzipFile(fileobj=response) if packed else response
        # A few bytes may become many, and a stranger need not stop sending.
        most_bytes = _MOST_OF_PROBLEM if is_problem else _MOST_BYTES
        try:
            data = source.read(most_bytes + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise StoreError(f"the server's answer is cut: {error}", where=self.url) from error
        if len(data) > most_bytes:
            raise StoreError(
                f"the server's answer is larger than {most_bytes >> 20} MiB", where=self.url
            )
        return data

    def _check_is_ours(self, response: http.client.HTTPResponse) -> None:
        """Return if *response* comes from a server of ours and from this address.

        Raises:
            StoreError: it does not.
        """
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            goal = _printable(response.headers.get("Location", ""))
            hint = f"give the address it sends to: {goal}" if goal else ""
            raise StoreError(
                f"this address sends elsewhere ({response.status})", where=self.url, hint=hint
            )
        if SERVER_HEADER not in response.headers:
            kind = response.headers.get_content_type()
            raise StoreError(
                f"this is no Divergraph server: it answers with {kind} of another program",
                where=self.url,
                hint="`divergraph serve` of the same version starts one",
            )

    def _connected(self) -> http.client.HTTPConnection:
        """A new connection."""
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            context = ssl.create_default_context()
            wire: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_SECONDS, context=context
            )
        else:
            wire = http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        try:
            wire.connect()
        except OSError:
            wire.close()
            raise
        wire.sock.settimeout(self._seconds)
        return wire

    def _unreached(self, error: Exception) -> StoreError:
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "name its certificate's authority: export SSL_CERT_FILE=FILE"
            return StoreError(
                f"the server's certificate is not trusted: {error.verify_message}",
                where=self.url,
                hint=hint,
            )
        message = (
            "nothing listens there" if isinstance(error, ConnectionRefusedError) else str(error)
        )
        return StoreError(
            f"cannot reach the server: {message or type(error).__name__}",
            where=self.url,
            hint="`divergraph serve` starts one",
            retryable=True,
        )

    def _refused(self, status: int, data: bytes) -> InputError | StoreError:
        try:
            problem = json.loads(data)
        except ValueError:
            problem = {}
        problem = problem if isinstance(problem, dict) else {}
        detail, hint = str(problem.get("detail", "")), str(problem.get("hint", ""))
        if status == HTTPStatus.UNAUTHORIZED:
            hint = f"export {TOKEN_VARIABLE}=..., made by `divergraph serve token add`"
            return InputError("the server wants a token", where=self.url, hint=hint)
        if status == HTTPStatus.FORBIDDEN:
            return InputError(f"the server refuses it: {detail}", where=self.url)
        if status == HTTPStatus.NOT_FOUND and not detail:
            return StoreError("this is no Divergraph server", where=self.url)
        if status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS:
            return QueryError(detail or f"the server answers {status}", hint=hint)
        return StoreError(
            f"the server cannot answer ({status}): {detail}",
            where=self.url,
            hint=hint,
            retryable=True,
        )


def _object_of(data: bytes) -> dict[str, Any]:
    answer = json.loads(data)
    if not isinstance(answer, dict):
        raise TypeError("it is no JSON object")
    return answer


def _printable(text: str) -> str:
    """An address a stranger named, without what a terminal would obey."""
    return "".join(char for char in text if char.isprintable())[:200]


def _cut(wire: http.client.HTTPConnection) -> None:
    """End a connection that another thread waits on; the server then stops its query."""
    if wire.sock is not None:
        wire.sock.close()


def _address_of(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        port = address.port
    except ValueError as error:
        raise InputError(f"it is no address: {error}", where=url) from error
    if not address.hostname or address.path not in ("", "/") or address.query or port == 0:
        hint = "it is http[s]://host[:port]"
        raise InputError("it is no address of a server", where=url, hint=hint)
    if address.username or address.password:
        hint = f"export {TOKEN_VARIABLE}=... is the way to say who asks"
        raise InputError("an address with a password is seen by others", hint=hint)
    return address
