"""Who may ask: a file of names, roles and hashed tokens, for its owner alone."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hmac import compare_digest
from pathlib import Path
from typing import Any

from divergraph.server.login.secret_file import SecretFile, hashed
from graphstore.errors import InputError, NameTakenError, UnknownNameError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PREFIX = "dg_"


class UserRole(StrEnum):
    """What somebody may do; each may do what those before may."""

    READER = "reader"
    ANALYST = "analyst"
    ADMIN = "admin"

    def may(self, needed: UserRole) -> bool:
        """Whether it is *needed*, or more."""
        order = list(UserRole)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who asks."""

    name: str
    role: UserRole


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token as the file keeps it: never itself. It is 256 random bits, so one round of a hash
    cannot be guessed back."""

    name: str
    role: UserRole
    sha256: str
    created: str


class TokenFile:
    """The tokens in the file at ``path``; what others change is seen with the next request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SecretFile(path, "tokens", _token_of)

    def add(self, name: str, role: UserRole) -> str:
        """Make a token for *name*; it is shown this once.

        Raises:
            InputError: *name* cannot be one.
            NameTakenError: *name* has a token.
        """
        if not _NAME.fullmatch(name):
            hint = "letters, digits and . _ @ -, up to 64"
            raise InputError(f"{name!r} cannot be the name of a user", hint=hint)
        token = _PREFIX + secrets.token_urlsafe(32)
        with self._file.changing() as tokens:
            if any(token.name == name for token in tokens):
                raise NameTakenError.by("token", name)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            tokens.append(KnownToken(name, role, hashed(token), created))
        return token

    def remove(self, name: str) -> None:
        """Have the token of *name* mean nothing from now on.

        Raises:
            UnknownNameError: there is none.
        """
        with self._file.changing() as tokens:
            remaining = [token for token in tokens if token.name != name]
            if len(remaining) == len(tokens):
                raise UnknownNameError("token", name)
            tokens[:] = remaining

    def all(self) -> list[KnownToken]:
        """What is known, by name."""
        return sorted(self._file.all(), key=lambda token: token.name)

    def user(self, token: str) -> User | None:
        """Whose *token* it is; None if nobody's."""
        return self.user_of_hash(hashed(token))

    def user_of_hash(self, wanted: str) -> User | None:
        """Whose token has this hash; None if nobody's has. How long that takes says nothing."""
        tokens = [token for token in self._file.all() if compare_digest(token.sha256, wanted)]
        return User(tokens[0].name, tokens[0].role) if tokens else None


def _token_of(listed: dict[str, Any]) -> KnownToken:
    return KnownToken(**{**listed, "role": UserRole(listed["role"])})
