"""Who is known: by a token, by the cookie of a session, or by a link that shows one run."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.types import Scope

from divergraph.server.login.sessions import Sessions
from divergraph.server.login.shares import PREFIX, ShareFile, ShareLink
from divergraph.server.tokens import TokenFile, User, UserRole
from graphstore.model import Run

COOKIE = "divergraph_session"
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class KnownPeople:
    """Those whom a server knows; without ``shares`` nobody comes by a link."""

    tokens: TokenFile
    sessions: Sessions
    shares: ShareFile | None

    def browser(self, scope: Scope) -> User | None:
        """Whose session the cookie is of. Programs change things with a token only: what a browser
        changes, it does with a form, which is sealed."""
        secret = cookie_parser(Headers(scope=scope).get("cookie", "")).get(COOKIE, "")
        if not secret or (scope["path"].startswith("/v1/") and scope["method"] not in _SAFE):
            return None
        user = self.sessions.user(secret)
        if user is not None:
            scope["session"] = secret
        return user

    def guest(self, scope: Scope) -> User | None:
        """Somebody who may look at the pages of one run, as the address of a link says; the
        addresses of those follow that of the link."""
        secret, _, below = scope["path"].removeprefix(PREFIX).partition("/")
        link = None if self.shares is None else self.shares.link(secret)
        if link is None or scope["method"] not in _SAFE:
            return None
        if not f"{below}/".startswith(f"runs/{link.run}/"):
            return None
        scope["root_path"] = f"{PREFIX}{secret}"
        scope["link"] = link
        return User(f"link {link.id}", UserRole.READER)


def check_link(link: ShareLink | None, run: Run) -> None:
    """Return if somebody came without a link, or by one to this *run*.

    Raises:
        HTTPException: another run has the name by now.
    """
    if link is not None and (link.run, link.compared) != (run.name, run.created):
        raise HTTPException(404, "the run that this link shows is gone")
