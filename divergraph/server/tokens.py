"""Who may ask: a file of names, roles and hashed tokens, for its owner alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from graphstore.errors import InputError, NameTakenError, UnknownNameError
from graphstore.file_lock import held_lock

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
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, KnownToken] = {}

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
        with self._changing() as known:
            if name in known:
                raise NameTakenError.by("token", name)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            known[name] = KnownToken(name, role, _hash(token), created)
        return token

    def remove(self, name: str) -> None:
        """Have the token of *name* mean nothing from now on.

        Raises:
            UnknownNameError: there is none.
        """
        with self._changing() as known:
            if known.pop(name, None) is None:
                raise UnknownNameError("token", name)

    def all(self) -> list[KnownToken]:
        """What is known, by name."""
        self._read()
        return sorted(self._known.values(), key=lambda each: each.name)

    def user(self, token: str) -> User | None:
        """Whose *token* it is; None if nobody's."""
        self._read()
        # Looked for by its hash: how long that takes says nothing about a token.
        wanted = _hash(token)
        found = next((each for each in self._known.values() if each.sha256 == wanted), None)
        return None if found is None else User(found.name, found.role)

    def _read(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, {}
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return
        if found.st_mode & 0o077:
            raise InputError(
                "others can read the tokens", where=str(self.path), hint="chmod 600 it"
            )
        self._known = _known_tokens(self.path)
        self._stamp = stamp

    @contextmanager
    def _changing(self) -> Iterator[dict[str, KnownToken]]:
        """The tokens by name, to be changed; written in one step, one writer after the other."""
        with held_lock(self.path.with_name(f"{self.path.name}.lock")):
            self._read()
            known = dict(self._known)
            yield known
            part = self.path.with_name(f"{self.path.name}.part")
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"tokens": [asdict(each) for each in known.values()]}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)


def _known_tokens(path: Path) -> dict[str, KnownToken]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["tokens"]
        found = [KnownToken(**{**each, "role": UserRole(each["role"])}) for each in listed]
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "move it away and make new tokens"
        raise InputError(f"no list of tokens: {error}", where=str(path), hint=hint) from error
    return {each.name: each for each in found}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
