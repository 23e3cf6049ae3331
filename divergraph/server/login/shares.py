"""Links that show one run to whoever has them, until they end."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from divergraph.server.login.secret_file import SecretFile, hashed
from graphstore.errors import InputError, UnknownNameError

DAYS, MOST_DAYS = 7, 366
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
PREFIX = "/shared/"


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A link to the run of this name that was made at ``compared``; its address holds a secret, of
    which ``sha256`` is kept. It ends at ``ends``; ``maker`` is the user who made it."""

    id: str
    run: str
    compared: str
    sha256: str
    created: str
    ends: str
    maker: str

    @property
    def is_over(self) -> bool:
        """Whether it shows nothing any more."""
        return datetime.fromisoformat(self.ends) <= datetime.now(UTC)


class ShareFile:
    """The links in the file at *path*."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SecretFile(path, "links", _link_of)

    def add(self, run: str, compared: str, maker: str, days: float = DAYS) -> tuple[ShareLink, str]:
        """Make a link to *run*, made at *compared*; with the path of its address, shown this once.

        Raises:
            InputError: it would end too late, or at once.
        """
        if not 0 < days <= MOST_DAYS:
            raise InputError(f"a link holds up to {MOST_DAYS} days", where="days")
        secret, now = secrets.token_urlsafe(32), datetime.now(UTC)
        created, ends = (
            moment.isoformat(timespec="seconds") for moment in (now, now + timedelta(days=days))
        )
        link = ShareLink(secrets.token_hex(4), run, compared, hashed(secret), created, ends, maker)
        with self._file.changing() as links:
            links[:] = [link for link in links if not link.is_over]
            links.append(link)
        return link, f"{PREFIX}{secret}/runs/{quote(run, safe='')}"

    def all(self) -> list[ShareLink]:
        """The links that are not over, oldest first."""
        return [link for link in self._file.all() if not link.is_over]

    def of_run(self, run: str) -> list[ShareLink]:
        """Those to this run."""
        return [link for link in self.all() if link.run == run]

    def revoke(self, name: str) -> ShareLink:
        """Have the link with this id show nothing from now on.

        Raises:
            UnknownNameError: there is none.
        """
        with self._file.changing() as links:
            revoked = next((link for link in links if link.id == name), None)
            if revoked is None:
                raise UnknownNameError("link", name)
            links.remove(revoked)
        return revoked

    def link(self, secret: str) -> ShareLink | None:
        """The link with this secret in its address; None if it is over, revoked or no such."""
        if not _SECRET.fullmatch(secret):
            return None
        wanted = hashed(secret)
        links = [link for link in self.all() if compare_digest(link.sha256, wanted)]
        return links[0] if links else None


def _link_of(listed: dict[str, Any]) -> ShareLink:
    return ShareLink(**listed)
