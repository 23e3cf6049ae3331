"""What a browser is answered that may not come in, or whose request failed."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from divergraph.server.login.shares import PREFIX
from divergraph.server.pages.rendering import ASSETS, Pages
from divergraph.server.problems import Problem
from divergraph.server.tokens import User, UserRole

PUBLIC = ("/login", *(f"/static/{name}" for name in ASSETS))
"""What is the same for everybody, and needed to log in or to follow a link."""
_FOR_PROGRAMS = ("/v1/", "/openapi.json", "/metrics", "/healthz", "/readyz")


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks for a page, and no program for an answer."""
    accepted = Headers(scope=scope).get("accept", "")
    return "text/html" in accepted and not scope["path"].startswith(_FOR_PROGRAMS)


def is_shared(scope: Scope) -> bool:
    """Whether it is asked for by a link that shows one run."""
    path: str = scope["path"]
    return path.startswith(PREFIX)


class Doors:
    """Says with a page what programs are told as a problem."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def to_login(self, scope: Scope) -> Response:
        """Where whoever asks can log in, and come back."""
        request = Request(scope)
        if request.headers.get("sec-fetch-site") == "cross-site" and scope["method"] == "GET":
            # A strict cookie does not come along from elsewhere; asked by our page it does.
            scope["user"] = User("", UserRole.READER)
            return self._pages.page(request, "again.html", {"address": _address(request)})
        onward = _address(request) if scope["method"] == "GET" else "/"
        return RedirectResponse(f"/login?next={quote(onward, safe='')}", 303)

    def refused(self, scope: Scope, problem: Problem) -> Response:
        """*problem* as a page."""
        scope.setdefault("user", User("", UserRole.READER))
        return self._pages.page(
            Request(scope), "problem.html", {"problem": problem}, problem.status
        )


def _address(request: Request) -> str:
    raw: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (raw + (b"?" + query if query else b"")).decode("latin-1")
