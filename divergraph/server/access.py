"""Who asks, and whether they may: the outermost layer of the server."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from divergraph.server.problems import Problem, of_status
from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import TokenFile, User, UserRole
from divergraph.text.printable import printable

audit = logging.getLogger("divergraph.server.audit")
_OPEN = ("/healthz", "/readyz")
"""What a load balancer asks, without a token."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_CLIENTS = 10_000

# Nothing we answer is to be run, framed or guessed at by a browser.
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"private, no-cache"),
)


class Access:
    """Lets requests through to *app* with ``scope["user"]`` set, or answers why not."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, tokens: TokenFile) -> None:
        self._app = app
        self._settings = settings
        self._tokens = tokens
        self._rates = RateLimit(settings.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        found = self._user_or_problem(scope)
        if isinstance(found, Problem):
            headers = {"WWW-Authenticate": "Bearer"} if found.status == 401 else None
            await found.response(headers)(scope, receive, send_safely)
        else:
            scope["user"] = found
            await self._app(scope, receive, send_safely)
        _tell(scope, found, status, time.perf_counter() - began)

    def _user_or_problem(self, scope: Scope) -> User | Problem:
        headers = Headers(scope=scope)
        known = self._settings.known_hosts
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if known and host not in known:
            # A page of a stranger whose name suddenly means 127.0.0.1 asks under its own.
            hint = "start it with --allow-host NAME if it should be"
            return of_status(HTTPStatus.MISDIRECTED_REQUEST, "this is not its name", hint)
        if scope["path"] in _OPEN:
            return User("", UserRole.READER)
        user = self._user(headers)
        if user is None:
            hint = "send Authorization: Bearer TOKEN; `divergraph serve token add` makes one"
            return of_status(HTTPStatus.UNAUTHORIZED, "a valid token is needed", hint)
        if scope["method"] not in _SAFE and _is_foreign(headers):
            return of_status(HTTPStatus.FORBIDDEN, "pages of others may not change anything")
        if not self._rates.takes(user.name or str(scope.get("client"))):
            return of_status(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a moment")
        return user

    def _user(self, headers: Headers) -> User | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._tokens.user(token.strip())
        return None if self._settings.needs_tokens else User("", UserRole.ADMIN)


def _is_foreign(headers: Headers) -> bool:
    """Whether a browser says that a page from elsewhere sent this."""
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def _tell(scope: Scope, found: User | Problem, status: int, seconds: float) -> None:
    if scope["path"] in _OPEN:
        return
    who = "?" if isinstance(found, Problem) else found.name or "local"
    audit.info(
        "%s %s %s %d %.3f s", who, scope["method"], printable(scope["path"]), status, seconds
    )


class RateLimit:
    """A bucket of requests for each client, which fills again at a steady rate."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, client: str) -> bool:
        """Whether one more request of *client* is within its limits; counts it if so."""
        now = time.monotonic()
        left, at = self._left.pop(client, (float(self._limits.burst), now))
        left = min(float(self._limits.burst), left + (now - at) * self._limits.rate)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return allowed
