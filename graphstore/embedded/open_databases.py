"""The views a store has open: one of each entry, and of several together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.entry_facts import is_as_written, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.query_process import QueryProcesses
from graphstore.embedded.views import View, Views
from graphstore.errors import StoreError, UnknownNameError


def _are_all_of_one(entries: list[Entry]) -> bool:
    """True if *entries* share tables that say the same of them, and of nothing else."""
    first = entries[0]
    return (
        first.shared is not None
        and first.manifest.get("together") == len(entries)
        and all(entry.shared == first.shared and is_as_written(entry) for entry in entries)
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open *database*, and the view whose file it reads."""

    stamp: object
    view: View
    database: ReadDatabase


class OpenDatabases:
    """Opens the *views* of the entries of *folder* and keeps them open; for all threads."""

    def __init__(self, folder: StoreFolder, views: Views) -> None:
        self._folder = folder
        self._views = views
        self._lock = threading.RLock()
        self._open: dict[Path | str, _Opened] = {}
        self._apart: dict[ReadDatabase, QueryProcesses] = {}
        self._replaced: list[ReadDatabase] = []

    def of(self, entry: Entry) -> ReadDatabase:
        """The database of what shares its tables with an entry; opened anew if it was replaced.

        Raises:
            UnknownNameError: the entry is gone since a moment.
            StoreError: its tables are not what was written, and there is no view of them.
        """
        # shared tables are never replaced
        stamp = entry.stamp if entry.shared is None else None
        return self._of(entry, entry.home, stamp, self._views.of)

    def named(self, entry: Entry) -> ReadDatabase:
        """That of an entry alone, under the name it has."""
        if entry.shared is None and is_as_written(entry):
            return self.of(entry)
        return self._of(entry, str(entry.folder), entry.stamp, self._views.named)

    def of_all(self, entries: list[Entry]) -> ReadDatabase:
        """A database of one or more entries, under the names they have."""
        if len(entries) == 1:
            return self.named(entries[0])
        if _are_all_of_one(entries):
            return self.of(entries[0])
        stamps = [(entry.folder, entry.stamp) for entry in entries]
        try:
            return self._opened("", stamps, lambda: self._views.merged(entries))
        except StoreError:
            for entry in entries:  # perhaps one was replaced or deleted since it was listed
                fresh = self._folder.entry(entry.kind, entry.name)
                if fresh is None or fresh.stamp != entry.stamp:
                    raise UnknownNameError(what(entry), entry.name) from None
            raise

    def _of(
        self, entry: Entry, key: Path | str, stamp: object, make: Callable[[Entry], View]
    ) -> ReadDatabase:
        try:
            return self._opened(key, stamp, lambda: make(entry))
        except StoreError:
            # perhaps it was replaced since its manifest was read
            fresh = self._folder.entry(entry.kind, entry.name)
            if fresh is None:
                raise UnknownNameError(what(entry), entry.name) from None
            if fresh.stamp == entry.stamp:
                raise
            return self._of(fresh, key if fresh.shared is None else fresh.home, fresh.stamp, make)

    def _opened(self, key: Path | str, stamp: object, make: Callable[[], View]) -> ReadDatabase:
        with self._lock:
            opened = self._open.get(key)
            # The engine is given nothing else: of some bytes that changed it makes a wrong answer.
            if opened is not None and opened.stamp == stamp and opened.view.is_unchanged():
                return opened.database
            self.forget(key)
            view = make()
            database = ReadDatabase(view.database)
            self._open[key] = _Opened(stamp, view, database)
            return database

    def apart(self, database: ReadDatabase) -> QueryProcesses:
        """Processes that read the file of an open *database*, for questions of users."""
        with self._lock:
            if database not in self._apart:
                self._apart[database] = QueryProcesses(database.path)
            return self._apart[database]

    def forget(self, key: Path | str) -> None:
        """Open the database of the entry in the folder *key* anew when it is asked for."""
        with self._lock:
            opened = self._open.pop(key, None)
            if opened is not None:
                # Another thread may be reading it; closing would end its query. Files of replaced
                # entries stay readable while they are open.
                self._replaced.append(opened.database)
                if opened.database in self._apart:
                    self._apart.pop(opened.database).retire()

    def rest(self) -> None:
        """Have those that nobody reads at present let go of their memory."""
        with self._lock:
            for opened in self._open.values():
                opened.database.rest()

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for processes in self._apart.values():
                processes.close()
            self._apart.clear()
            for database in [*self._replaced, *(opened.database for opened in self._open.values())]:
                database.close()
            self._views.close()
            self._replaced.clear()
            self._open.clear()
