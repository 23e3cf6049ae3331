"""Making links that show one run, and revoking them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from divergraph.server.answering import Answering, check_role
from divergraph.server.login.shares import ShareFile
from divergraph.server.pages.links import Links
from divergraph.server.pages.rendering import Pages
from divergraph.server.tokens import User, UserRole
from graphstore.cancellation import Cancellation
from graphstore.errors import InputError, UnknownNameError


class SharePage:
    """Answers the forms of ``/runs/NAME/shares``."""

    def __init__(self, answering: Answering, pages: Pages, shares: ShareFile) -> None:
        self._answering, self._pages, self._shares = answering, pages, shares

    async def change(self, request: Request) -> Response:
        """Make a link to the run, and show it this once; or revoke one."""
        check_role(request, UserRole.ANALYST)
        fields = await self._pages.seals.form(request, self._pages.settings.limits)
        run, user = request.path_params["run"], request.scope["user"]

        def work(_cancellation: Cancellation) -> Response:
            if "revoke" in fields:
                self._revoke(run, fields["revoke"])
                return RedirectResponse(f"{Links.of(request).run(run)}#shares", 303)
            return self._made(request, run, user, fields.get("days", ""))

        return await self._answering.pool.answer(request, work)

    def _revoke(self, run: str, name: str) -> None:
        if all(link.id != name for link in self._shares.of_run(run)):
            raise UnknownNameError("link", name)
        self._shares.revoke(name)

    def _made(self, request: Request, run: str, user: User, days: str) -> Response:
        if not days.isascii() or not days.isdigit():
            raise InputError("a number of days is needed", where="days")
        record = self._answering.store.run(run)
        link, path = self._shares.add(run, record.created, user.name, int(days))
        scheme = "https" if self._pages.settings.is_encrypted else request.url.scheme
        address = f"{scheme}://{request.url.netloc}{path}"
        values = {"name": run, "link": link, "address": address}
        return self._pages.page(request, "shared.html", values)
