"""Logging a browser in with a token, and out."""

from __future__ import annotations

from urllib.parse import quote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.server.login.people import COOKIE
from divergraph.server.login.sessions import SECONDS, Sessions
from divergraph.server.pages.rendering import Pages


class LoginPage:
    """Answers ``/login`` and ``/logout``."""

    def __init__(self, pages: Pages, sessions: Sessions) -> None:
        self._pages, self._sessions = pages, sessions
        self._limits = pages.settings.limits

    async def page(self, request: Request) -> Response:
        """The form; or, if a form was sent, a session."""
        onward = _own_path(request.query_params.get("next", "/"))
        if request.method != "POST":
            return self._page(request, onward, "", 200)
        fields = await self._pages.seals.form(request, self._limits)
        token = fields.get("token", "").strip()
        secret = await to_thread.run_sync(self._sessions.begin, token)
        if secret is None:
            return self._page(request, onward, "this is nobody's token", 401)
        answer = RedirectResponse(onward, 303)
        self._keep(answer, secret, round(SECONDS))
        return answer

    async def logout(self, request: Request) -> Response:
        """The end of a session."""
        await self._pages.seals.form(request, self._limits)
        await to_thread.run_sync(self._sessions.end, request.scope.get("session", ""))
        answer = RedirectResponse("/login", 303)
        self._keep(answer, "", 0)
        return answer

    def _page(self, request: Request, onward: str, problem: str, status: int) -> Response:
        needed = self._pages.settings.needs_tokens
        values = {"next": quote(onward, safe=""), "problem": problem, "needed": needed}
        return self._pages.page(request, "login.html", values, status)

    def _keep(self, answer: Response, secret: str, seconds: int) -> None:
        answer.set_cookie(
            COOKIE,
            secret,
            max_age=seconds,
            httponly=True,
            samesite="strict",
            secure=self._pages.settings.is_encrypted,
        )


def _own_path(text: str) -> str:
    """*text* if it is an address of this server without its name, else the first page."""
    plain = text.startswith("/") and not text.startswith("//") and text.isprintable()
    return text if plain and "\\" not in text else "/"
