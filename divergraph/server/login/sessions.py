"""Browsers somebody logged in with: what their cookie means, kept as hashes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divergraph.server.login.secret_file import SecretFile, hashed
from divergraph.server.tokens import TokenFile, User

SECONDS = 12 * 3600.0
_SESSIONS = 1000


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session: the hashes of its secret and of the token that was shown; when it ends, in seconds
    since 1970."""

    sha256: str
    token: str
    ends: float


class Sessions:
    """The sessions in the file at *path*, which outlive a server; without one they end with it.
    Each is over when its token is removed, or after half a day."""

    def __init__(self, tokens: TokenFile, path: Path | None = None) -> None:
        self._tokens = tokens
        self._file = None if path is None else SecretFile(path, "sessions", _session_of)
        self._known: list[KnownSession] = []

    def begin(self, token: str) -> str | None:
        """The secret of a new session, for a cookie; None if *token* is nobody's."""
        if self._tokens.user(token) is None:
            return None
        secret, now = secrets.token_urlsafe(32), time.time()
        with self._changing() as sessions:
            going_on = [session for session in sessions if session.ends > now]
            sessions[:] = going_on[-_SESSIONS + 1 :]
            sessions.append(KnownSession(hashed(secret), hashed(token), now + SECONDS))
        return secret

    def user(self, secret: str) -> User | None:
        """Whose session it is; None if nobody's, any more."""
        wanted, now = hashed(secret), time.time()
        listed = self._known if self._file is None else self._file.all()
        session = next((entry for entry in listed if entry.sha256 == wanted), None)
        if session is None or not now < session.ends <= now + SECONDS:
            return None
        return self._tokens.user_of_hash(session.token)

    def end(self, secret: str) -> None:
        """The session is over."""
        wanted = hashed(secret)
        with self._changing() as sessions:
            sessions[:] = [session for session in sessions if session.sha256 != wanted]

    @contextmanager
    def _changing(self) -> Iterator[list[KnownSession]]:
        if self._file is None:
            yield self._known
        else:
            with self._file.changing() as sessions:
                yield sessions


def _session_of(listed: dict[str, Any]) -> KnownSession:
    return KnownSession(**listed)
