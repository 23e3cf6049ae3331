"""The user's own queries and those asked before, as files of the user's state folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from graphstore.errors import InputError
from graphstore.private_folder import private_folder

KEPT = 200
_NAME = re.compile(r"[\w .-]{1,60}")


class QueryFiles:
    """Own queries, one ``NAME.cypher`` each, and ``history.jsonl`` in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._history = folder / "history.jsonl"

    def own(self) -> dict[str, str]:
        """The texts of the user's own queries, by name."""
        queries: dict[str, str] = {}
        with suppress(OSError):  # there is no such folder before the first is kept
            for path in sorted(self.folder.glob("*.cypher")):
                queries[path.stem] = path.read_text(encoding="utf-8", errors="replace")
        return queries

    def keep(self, name: str, text: str) -> Path:
        """Keep *text* as the user's query *name*, in place of an earlier one.

        Raises:
            InputError: no such name is possible, or the file cannot be written.
        """
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise InputError(
                f"{name!r} is no name for a query", hint="letters, digits, blanks, - and _"
            )
        path = self.folder / f"{name}.cypher"
        try:
            private_folder(self.folder)
            path.write_text(text.rstrip() + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"not kept: {error.strerror}", where=str(path)) from error
        return path

    def asked(self) -> list[tuple[str, str]]:
        """The texts asked before with their settings, oldest first."""
        try:
            lines = self._history.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        entries = []
        for line in lines[-KEPT:]:
            with suppress(ValueError, KeyError, TypeError):  # a line cut off by a full disk
                entry: Mapping[str, str] = json.loads(line)
                entries.append((str(entry["cypher"]), str(entry["settings"])))
        return entries

    def remember(self, text: str, settings: str) -> None:
        """Add a question to those asked before; a folder that cannot be written keeps none."""
        line = json.dumps({"cypher": text, "settings": settings}, ensure_ascii=False)
        before = self.asked()
        if before and before[-1] == (text, settings):
            return
        with suppress(OSError):
            private_folder(self.folder)
            if len(before) >= KEPT:
                lines = [json.dumps({"cypher": c, "settings": s}) for c, s in before[-KEPT // 2 :]]
                self._history.write_text("\n".join([*lines, line]) + "\n", encoding="utf-8")
            else:
                with self._history.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
