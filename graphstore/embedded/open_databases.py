"""The databases a store has open: one of each entry, and of several together."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.entry_facts import is_as_written, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.query_process import QueryProcesses
from graphstore.embedded.scratch import Scratch
from graphstore.errors import UnknownNameError


def _are_all_of_one(entries: list[Entry]) -> bool:
    """True if *entries* share a database that says the same of them, and of nothing else."""
    first = entries[0]
    return (
        first.shared is not None
        and not first.is_older
        and first.manifest.get("together") == len(entries)
        and all(entry.shared == first.shared and is_as_written(entry) for entry in entries)
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open *database*, the entry whose file it reads, and what changes if it is replaced."""

    stamp: tuple[int, int]
    source: Entry
    database: ReadDatabase

    def is_unchanged(self) -> bool:
        """True if it is still what was written."""
        return self.source.is_unchanged()


class OpenDatabases:
    """Opens the databases of the entries of *folder* and keeps them open; for all threads.

    Those that must be made first, of other names or of several entries, are in *scratch*.
    """

    def __init__(self, folder: StoreFolder, scratch: Scratch) -> None:
        self._folder = folder
        self._scratch = scratch
        self._lock = threading.RLock()
        self._open: dict[Path, _Opened] = {}
        self._apart: dict[ReadDatabase, QueryProcesses] = {}
        self._replaced: list[ReadDatabase] = []

    def of(self, entry: Entry) -> ReadDatabase:
        """The database of an entry; opened anew if the entry was replaced.

        Raises:
            UnknownNameError: the entry is gone since a moment.
            StoreError: neither its database nor its tables are what was written.
        """
        with self._lock:
            # a shared one is never replaced
            stamp = entry.stamp if entry.shared is None else (0, 0)
            opened = self._open.get(entry.home)
            if opened is not None and opened.stamp == stamp and opened.is_unchanged():
                return opened.database
            self.forget(entry.home)
            # The engine is given nothing else: of some bytes that changed it makes a wrong answer.
            if not entry.is_unchanged():
                # perhaps it was replaced since its manifest was read
                fresh = self._folder.entry(entry.kind, entry.name)
                if fresh is None:
                    raise UnknownNameError(what(entry), entry.name)
                if fresh.stamp != entry.stamp:
                    return self.of(fresh)
            source = self._scratch.readable(entry)
            database = ReadDatabase(source.database)
            self._open[entry.home] = _Opened(stamp, source, database)
            return database

    def named(self, entry: Entry) -> ReadDatabase:
        """That of an entry alone, or a copy where it shares one, got another name since, or lacks
        tables."""
        alone = entry.shared is None and is_as_written(entry) and not entry.is_older
        return self.of(entry if alone else self._scratch.named(entry, self.of))

    def of_all(self, entries: list[Entry]) -> ReadDatabase:
        """A database of one or more entries, under the names they have."""
        with self._lock:
            if len(entries) == 1:
                return self.named(entries[0])
            if _are_all_of_one(entries):
                return self.of(entries[0])
            return self.of(self._scratch.merged(entries, self.of))

    def apart(self, database: ReadDatabase) -> QueryProcesses:
        """Processes that read the file of an open *database*, for questions of users."""
        with self._lock:
            if database not in self._apart:
                self._apart[database] = QueryProcesses(database.path)
            return self._apart[database]

    def forget(self, folder: Path) -> None:
        """Open the database of the entry in *folder* anew when it is asked for."""
        with self._lock:
            opened = self._open.pop(folder, None)
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
            self._scratch.close()
            self._replaced.clear()
            self._open.clear()
