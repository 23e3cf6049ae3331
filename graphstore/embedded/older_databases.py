"""Entries that earlier versions kept as a database of the engine: their values are read with the
queries of now, and made tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphstore.contract import QueryResult
from graphstore.cypher.limits import NO_LIMITS, QueryLimits
from graphstore.cypher.queries import NamedQuery
from graphstore.cypher.targets import TargetKeys
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.disk import is_as_written, os_errors
from graphstore.embedded.engine import check_form
from graphstore.embedded.entry_facts import damaged
from graphstore.embedded.folders import Entry
from graphstore.embedded.run_tables import RunTables, import_tables
from graphstore.embedded.store import EmbeddedStore
from graphstore.gc_paused import gc_paused
from graphstore.model import Run
from graphstore.own_folder import OwnFolder
from graphstore.schema import codec
from graphstore.schema.stored_graph import stored_graph

_PACKED = ".zst"
_PIECE = 2**20


def older_tables(root: Path, entry: Entry) -> Iterator[tuple[str, Any]]:
    """(name, Arrow table or None) of *entry* of the store in *root*, read from a copy: the engine
    may write its own form into what it opens.

    Raises:
        DamagedStoreError: the database is not what was written.
        StoreError: a newer version of the engine wrote it.
    """
    if not is_as_written(entry.database, entry.manifest):
        raise damaged(entry, entry.database.name)
    check_form(entry.database, entry.manifest.get("engine"))
    with OwnFolder("older") as folder, gc_paused():
        copy = folder / "graph.lbug"
        with os_errors("copy", copy):
            _copy(entry.database, copy)
        database = ReadDatabase(copy)
        try:
            store = _OlderEntry(root, entry, database)
            if entry.kind == "runs":
                yield from RunTables.of(store.run_data(entry.name))
            else:
                info = entry.manifest["info"]
                graph = stored_graph(store.graph(entry.name), {})
                yield from import_tables(graph, info["name"], info["created"])
        finally:
            database.close()


def _copy(database: Path, copy: Path) -> None:
    """Copy a database file; large ones of several runs are packed."""
    if database.suffix != _PACKED:
        shutil.copyfile(database, copy)
        return
    import pyarrow as pa

    with pa.CompressedInputStream(str(database), "zstd") as file, copy.open("wb") as out:
        shutil.copyfileobj(file, out, _PIECE)


class _OlderEntry(EmbeddedStore):
    """A store of one *entry*, as it was written, which is asked in its *database*."""

    def __init__(self, root: Path, entry: Entry, database: ReadDatabase) -> None:
        super().__init__(root, read_only=True)
        self._older, self._database = entry, database

    def run(self, name: str) -> Run:
        """The run, under the name that its tables say."""
        return codec.decoded(Run, self._known(name).manifest["run"])

    def _known(self, name: str) -> Entry:
        del name  # there is one
        return self._older

    def _ask(
        self,
        place: TargetKeys,
        query: NamedQuery,
        params: Mapping[str, object],
        limits: QueryLimits = NO_LIMITS,
    ) -> QueryResult:
        del place
        return self._database.ask(query.text, params, limits)
