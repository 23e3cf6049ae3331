"""A list in a file for its owner alone: what is secret in it stands as a hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from graphstore.errors import InputError
from graphstore.file_lock import held_lock

Entry = TypeVar("Entry")


class SecretFile(Generic[Entry]):
    """The entries, dataclasses, in the file at ``path``; what others change is seen with the next
    look. ``what`` they are called there; *made* makes one of its JSON."""

    def __init__(self, path: Path, what: str, made: Callable[[dict[str, Any]], Entry]) -> None:
        self.path = path
        self._what, self._made = what, made
        self._stamp: tuple[int, int] | None = None
        self._known: list[Entry] = []

    def all(self) -> list[Entry]:
        """The entries, as they were added.

        Raises:
            InputError: others can read the file, or it holds something else.
        """
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._known = None, []
            return []
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._stamp:
            if status.st_mode & 0o077:
                message = f"others can read the {self._what}"
                raise InputError(message, where=str(self.path), hint="chmod 600 it")
            self._known, self._stamp = self._read(), stamp
        return list(self._known)

    @contextmanager
    def changing(self) -> Iterator[list[Entry]]:
        """The entries, to be changed; written in one step, one writer after the other."""
        with held_lock(self.path.with_name(f"{self.path.name}.lock")):
            entries = self.all()
            yield entries
            part = self.path.with_name(f"{self.path.name}.part")
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                listed = [asdict(entry) for entry in entries]  # type: ignore[call-overload]
                json.dump({self._what: listed}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)

    def _read(self) -> list[Entry]:
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))[self._what]
            return [self._made(entry) for entry in listed]
        except (OSError, ValueError, KeyError, TypeError) as error:
            hint = f"move it away and make new {self._what}"
            message = f"no list of {self._what}: {error}"
            raise InputError(message, where=str(self.path), hint=hint) from error


def hashed(secret: str) -> str:
    """What is kept of a secret of 256 random bits: one round of a hash cannot be guessed back."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
