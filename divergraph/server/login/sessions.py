"""Browsers somebody logged in with: what their cookie means, kept here and nowhere else."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

from divergraph.server.login.secret_file import hashed
from divergraph.server.tokens import TokenFile, User

SECONDS = 12 * 3600.0
_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class _Session:
    token: str
    """The hash of the token that was shown."""
    ends: float


class Sessions:
    """The sessions of a server; each is over when its token is removed, or after half a day."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._known: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: str) -> str | None:
        """The secret of a new session, for a cookie; None if *token* is nobody's."""
        if self._tokens.user(token) is None:
            return None
        secret = secrets.token_urlsafe(32)
        self._known[hashed(secret)] = _Session(hashed(token), time.monotonic() + SECONDS)
        if len(self._known) > _SESSIONS:
            self._known.popitem(last=False)
        return secret

    def user(self, secret: str) -> User | None:
        """Whose session it is; None if nobody's, any more."""
        found = self._known.get(hashed(secret))
        if found is None or found.ends < time.monotonic():
            self.end(secret)
            return None
        return self._tokens.user_of_hash(found.token)

    def end(self, secret: str) -> None:
        """The session is over."""
        self._known.pop(hashed(secret), None)
