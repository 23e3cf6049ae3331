"""Who asks, and whether they may: the outermost layer of the server."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from divergraph.server.login.people import KnownPeople
from divergraph.server.login.shares import PREFIX
from divergraph.server.pages.doors import PUBLIC, Doors, is_shared, wants_page
from divergraph.server.problems import Problem, of_status
from divergraph.server.settings import Limits, ServerSettings
from divergraph.server.tokens import User, UserRole
from divergraph.text.printable import printable
from graphstore.remote.wire import SERVER_HEADER

audit = logging.getLogger("divergraph.server.audit")
_OPEN = ("/healthz", "/readyz")
"""What a load balancer asks, without a token."""
_SAFE = ("GET", "HEAD", "OPTIONS")
_CLIENTS = 10_000
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^][:@/\s]+)(?::[0-9]*)?")

# Nothing we answer is to be run, framed or guessed at by a browser.
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"private, no-cache"),
    # By which a client knows that no other program answers.
    (SERVER_HEADER.lower().encode(), b"1"),
)


class Access:
    """Lets requests through to *app* with ``scope["user"]`` set, or answers why not."""

    def __init__(
        self, app: ASGIApp, settings: ServerSettings, doors: Doors, known: KnownPeople
    ) -> None:
        self._app = app
        self._settings = settings
        self._doors, self._known = doors, known
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
                names = {name.lower() for name, _ in message["headers"]}
                more = [header for header in _HEADERS if header[0] not in names]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        user = self._user_or_problem(scope)
        if isinstance(user, Problem):
            await self._refusal(scope, user)(scope, receive, send_safely)
        else:
            scope["user"] = user
            await self._app(scope, receive, send_safely)
        _tell(scope, user, status, time.perf_counter() - began)

    def _refusal(self, scope: Scope, problem: Problem) -> Response:
        if not wants_page(scope):
            headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
            return problem.response(headers)
        if problem.status == HTTPStatus.UNAUTHORIZED:
            return self._doors.to_login(scope)
        return self._doors.refused(scope, problem)

    def _user_or_problem(self, scope: Scope) -> User | Problem:
        headers = Headers(scope=scope)
        if scope.get("http_version") == "1.1" and len(headers.getlist("host")) != 1:
            # a proxy in front may have understood another one than we would
            return of_status(HTTPStatus.BAD_REQUEST, "a request has one Host")
        known_hosts = self._settings.known_hosts
        if known_hosts and _asked_name(headers) not in known_hosts:
            # A page of a stranger whose name suddenly means 127.0.0.1 asks under its own.
            hint = "start it with --allow-host NAME if it should be"
            return of_status(HTTPStatus.MISDIRECTED_REQUEST, "this is not its name", hint)
        if scope["path"] in _OPEN:
            return User("", UserRole.READER)
        user = self._user(scope, headers)
        if user is None and is_shared(scope):
            hint = "it may have ended, or been revoked: ask for another one"
            return of_status(HTTPStatus.NOT_FOUND, "this link shows nothing", hint)
        if user is None:
            hint = "send Authorization: Bearer TOKEN; `divergraph serve token add` makes one"
            return of_status(HTTPStatus.UNAUTHORIZED, "a valid token is needed", hint)
        if scope["method"] not in _SAFE and _is_foreign(headers):
            return of_status(HTTPStatus.FORBIDDEN, "pages of others may not change anything")
        if not self._rates.takes(user.name or str(scope.get("client"))):
            return of_status(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a moment")
        return user

    def _user(self, scope: Scope, headers: Headers) -> User | None:
        """Who asks, by a token, a session, a link, or from this machine."""
        if is_shared(scope):
            return self._known.guest(scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._known.tokens.user(token.strip())
        user = self._known.browser(scope)
        if user is not None:
            return user
        public = not self._settings.needs_tokens or scope["path"] in PUBLIC
        role = UserRole.READER if self._settings.needs_tokens else UserRole.ADMIN
        return User("", role) if public else None


def _is_foreign(headers: Headers) -> bool:
    """Whether a browser says that a page from elsewhere sent this."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def _asked_name(headers: Headers) -> str:
    """The name under which the server is asked, without a port; "" if that is none, or several."""
    matches = [_HOST.fullmatch(text) for text in headers.getlist("host")]
    return matches[0][1].strip("[]").lower() if len(matches) == 1 and matches[0] else ""


def _tell(scope: Scope, found: User | Problem, status: int, seconds: float) -> None:
    if scope["path"] in _OPEN:
        return
    who = "?" if isinstance(found, Problem) else found.name or "local"
    audit.info("%s %s %s %d %.3f s", who, scope["method"], _told_path(scope), status, seconds)


def _told_path(scope: Scope) -> str:
    """The address as a log may hold it: without the secret of a link."""
    path: str = scope["path"]
    if is_shared(scope):
        path = PREFIX + "…/" + path.removeprefix(PREFIX).partition("/")[2]
    return printable(path)


class RateLimit:
    """A bucket of requests for each client, which fills again at a steady rate."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, client: str) -> bool:
        """Whether one more request of *client* is within its limits; counts it if so."""
        now = time.monotonic()
        credit, at = self._left.pop(client, (float(self._limits.burst), now))
        credit = min(float(self._limits.burst), credit + (now - at) * self._limits.rate)
        allowed = credit >= 1.0
        self._left[client] = (credit - 1.0 if allowed else credit, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return allowed
