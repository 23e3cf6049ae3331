"""The views and the tables a store has open.

Views are of each entry, and of several together; processes of their own read them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from graphstore.embedded.disk import DamagedStoreError
from graphstore.embedded.entry_facts import damaged, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.query_process import QueryProcesses
from graphstore.embedded.table_reader import TableReader
from graphstore.embedded.views import Tables, View, Views
from graphstore.errors import StoreError, UnknownNameError
from graphstore.recent import Recent

_T = TypeVar("_T")
_Key: TypeAlias = tuple[Path | None, Tables]
_FEW_READERS = 8


@dataclass(frozen=True, slots=True)
class _Opened:
    """A *view*, and the *processes* that read its file."""

    stamp: object
    view: View
    processes: QueryProcesses


class OpenDatabases:
    """Opens the tables and the *views* of the entries of *folder* and keeps them open; for all
    threads."""

    def __init__(self, folder: StoreFolder, views: Views) -> None:
        self._folder = folder
        self._views = views
        self._lock = threading.RLock()
        self._open: dict[_Key, _Opened] = {}
        self._readers: Recent[TableReader] = Recent(_FEW_READERS, 0, lambda _: 1)
        self._replaced: list[QueryProcesses] = []

    def answer(self, entry: Entry, ask: Callable[[TableReader], _T]) -> _T:
        """What *ask* makes of the tables of an entry; asked again if it was replaced meanwhile.

        Raises:
            UnknownNameError: the entry is gone since a moment.
            StoreError: its tables are not what was written.
        """
        try:
            files = self._views.tables(entry)
            key = f"{files.folder} {'' if entry.shared else entry.stamp}"
            return ask(self._readers.get(key, lambda: TableReader(files)))
        except DamagedStoreError as error:
            fresh = self._folder.entry(entry.kind, entry.name)
            if fresh is None:
                raise UnknownNameError(what(entry), entry.name) from None
            if fresh.stamp == entry.stamp:
                raise damaged(entry, str(error.where)) from error
        return self.answer(fresh, ask)

    def of(self, entries: Sequence[Entry], only: Tables = None) -> QueryProcesses:
        """A database of one or more entries, under the names they have; *only* these tables are
        asked for.

        Raises:
            UnknownNameError: one is gone or was replaced since it was read.
            StoreError: the tables of one are not what was written, and there is no view of them.
        """
        only = self._views.worth(entries, only)
        stamps = [(entry.folder, entry.stamp) for entry in entries]
        key = (entries[0].folder if len(entries) == 1 else None, only)
        try:
            return self._opened(key, stamps, lambda: self._views.of(entries, only))
        except StoreError:
            for entry in entries:
                fresh = self._folder.entry(entry.kind, entry.name)
                if fresh is None or fresh.stamp != entry.stamp:
                    raise UnknownNameError(what(entry), entry.name) from None
            raise

    def _opened(self, key: _Key, stamp: object, make: Callable[[], View]) -> QueryProcesses:
        with self._lock:
            opened = self._open.get(key)
            # The engine is given nothing else: of some bytes that changed it makes a wrong answer.
            if opened is not None and opened.stamp == stamp and opened.view.is_unchanged():
                return opened.processes
            self._close(key)
            view = make()
            processes = QueryProcesses(view.database)
            self._open[key] = _Opened(stamp, view, processes)
            return processes

    def forget(self, folder: Path) -> None:
        """Open the views of the entry in *folder* anew when they are asked for."""
        with self._lock:
            for key in [key for key in self._open if key[0] == folder]:
                self._close(key)

    def _close(self, key: _Key) -> None:
        opened = self._open.pop(key, None)
        if opened is not None:
            # A process that answers just now ends when it has.
            opened.processes.retire()
            self._replaced.append(opened.processes)

    def rest(self) -> None:
        """Let go of the memory that no question needs at present."""
        with self._lock:
            for key in [*self._open]:
                self._close(key)
            self._readers.clear()

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for processes in [*self._replaced, *(one.processes for one in self._open.values())]:
                processes.close()
            self._views.close()
            self._replaced.clear()
            self._open.clear()
            self._readers.clear()
