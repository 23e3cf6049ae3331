"""A password, and the private files it may lie in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from graphstore.errors import ConfigError

DEFAULT_USER = "neo4j"
"""Whose password it is where nothing else is said."""


class Password:
    """A password no ``repr``, log or traceback shows; :meth:`reveal` gives it to the driver."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The password itself."""
        return self._text

    def __repr__(self) -> str:
        return "Password(...)"


def check_private(path: Path) -> None:
    """Refuse a file with a password that other users could read or write.

    Raises:
        ConfigError: they can.
    """
    if os.name != "posix":
        return  # the mode says nothing there; the user's own folder is private
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(
            f"other users can read this file (mode {mode:o}), and it has passwords in it",
            where=str(path),
            hint=f"chmod 600 {path}",
        )
