"""Databases of the engine, made of the tables of entries when they are first asked for.

They lie in ``<root>/scratch`` and can be made again: of one entry or of several together, as one
query reads one database, under the names that they have.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from graphstore.embedded.disk import (
    DamagedStoreError,
    alone,
    draft_path,
    file_facts,
    is_as_written,
    os_errors,
    read_json,
    sync,
    write_json,
)
from graphstore.embedded.engine import engine_name
from graphstore.embedded.entry_facts import damaged
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.merged_tables import MergedTables
from graphstore.embedded.shared_tables import MANIFEST
from graphstore.embedded.table_files import (
    TABLES,
    TableFiles,
    manifest_of,
    paths_in,
    write_table_files,
)
from graphstore.embedded.write_process import write_database
from graphstore.errors import StoreError
from graphstore.own_folder import OwnFolder
from graphstore.private_folder import made_in, share_as
from graphstore.schema.tables import RELS, SCHEMA_VERSION

SCRATCH = "scratch"
_DATABASE = "graph.lbug"
Tables: TypeAlias = frozenset[str] | None
"""Labels and relationship types; all of them, if None."""
_LARGE = 2**28
"""Bytes of a view from which on it is made of the tables that a question is about."""
_ENDS = {rel.type: (rel.source, rel.target) for rel in RELS}
_LEAST, _GROWTH = 2**22, 8
"""Bytes of a database with hardly any rows, and for each byte of its tables."""


@dataclass(frozen=True, slots=True)
class View:
    """The *database* file of a view, and what is known of it."""

    database: Path
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path) -> View | None:
        """The whole view in a folder; None if there is none, or a damaged one."""
        with suppress(StoreError):
            view = cls(folder / _DATABASE, read_json(folder / MANIFEST))
            return view if view.is_unchanged() else None
        return None

    def is_unchanged(self) -> bool:
        """True if it is, byte for byte, what was made."""
        return is_as_written(self.database, self.facts)


class Views:
    """The views of the store in *folder*.

    They lie in the store, or in a folder of this process where *may_write* says no.
    """

    def __init__(self, folder: StoreFolder, *, may_write: bool) -> None:
        self._store = folder
        self._may_write = may_write
        self._temporary: OwnFolder | None = None

    def of(self, entries: Sequence[Entry], only: Tables = None) -> View:
        """What the tables of *entries* say; *only* these, with the nodes that they join, if there
        is no view of all. The key of a single run, for which ``$run`` stands, is as it was.

        Raises:
            DamagedStoreError: they are not what was written.
            StoreError: a newer version of the engine wrote one, and it has no tables.
        """
        folder = self._folder(_size(entries))
        name = _name("view", {entry.folder: entry.stamp for entry in entries})
        target = folder.root / SCRATCH / name
        view = View.of(target)
        if view is None and only is not None:
            target = target.with_name(f"{name}+{_digest(repr(sorted(only)))}")
            view = View.of(target)
        if view is not None:
            return view
        needed = only and {end for one in only for end in _ENDS.get(one, ())} | only
        with folder.writing() as written:
            database = written / _DATABASE
            paths = paths_in(self._files(entries, written / TABLES))
            write_database(database, [one for one in paths if needed is None or one[0] in needed])
            shutil.rmtree(written / TABLES, ignore_errors=True)
            with os_errors("write", target):
                sync(database)
                facts = {**file_facts(database, quickly=True), "engine": engine_name()}
                write_json(written / MANIFEST, facts)
                if folder is self._store:
                    self.drop_orphans()
                _put(folder.root, written, target)
        view = View.of(target)
        if view is None:
            raise StoreError("a database vanished", where=str(target), retryable=True)
        return view

    def _files(self, entries: Sequence[Entry], draft: Path) -> Path:
        """The folder with the tables of *entries*: the *draft*, or their own if they say all."""
        merged = MergedTables.of(self.pairs(entries), same_keys=len(entries) == 1)
        own = merged.unchanged
        if own is None:
            write_table_files(draft, merged)
            return draft
        if path := next(own.damaged(), None):
            raise damaged(entries[0], str(path))
        return own.folder

    def pairs(self, entries: Iterable[Entry]) -> list[tuple[Entry, TableFiles]]:
        """Each of *entries* with its :meth:`tables`: the same where several share them."""
        by_home: dict[Path, TableFiles] = {}
        pairs = []
        for entry in entries:
            # what is made of a database is of one entry, whatever else is in that
            home = entry.folder if "database" in entry.manifest else entry.home
            if home not in by_home:
                by_home[home] = self.tables(entry)
            pairs.append((entry, by_home[home]))
        return pairs

    def tables(self, entry: Entry) -> TableFiles:
        """The tables of an entry; those of one that an earlier version kept as a database are made
        of it.

        Raises:
            DamagedStoreError: the database is not what was written.
            StoreError: a newer version of the engine wrote it.
        """
        tables = entry.tables
        if tables is not None:
            return tables
        from graphstore.embedded.older_databases import older_tables  # a store, which has views

        folder = self._folder(_size([entry]))
        target = folder.root / SCRATCH / _name("tables", {entry.folder: entry.stamp})
        with suppress(StoreError):
            return _tables_in(target)
        with folder.writing() as written:
            write_table_files(written / TABLES, older_tables(self._store.root, entry))
            with os_errors("write", target):
                write_json(written / MANIFEST, {"tables": manifest_of(written / TABLES)})
                _put(folder.root, written, target)
        return _tables_in(target)

    def worth(self, entries: Sequence[Entry], only: Tables) -> Tables:
        """*only*, if a view of *entries* is so large that one of few tables is worth it."""
        return only if only is not None and _size(entries) > _LARGE else None

    def engines(self) -> dict[str, int]:
        """How many views each engine has made, of those in the store."""
        engines: Counter[str] = Counter()
        for database in sorted((self._store.root / SCRATCH).glob(f"*/{_DATABASE}")):
            with suppress(StoreError):
                manifest = read_json(database.with_name(MANIFEST))
                engines[str(manifest.get("engine", "an earlier ladybug"))] += 1
        return engines

    def orphans(self) -> list[Path]:
        """The views in the store that no question can use any more."""
        with os_errors("read", self._store.root):
            paths = sorted((self._store.root / SCRATCH).glob("*"))
        current = _current(self._store) if paths else set()
        return [path for path in paths if path.name.partition("+")[0] not in current]

    def drop_orphans(self) -> None:
        """Remove them."""
        for path in self.orphans():
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder of this process."""
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None

    def _folder(self, size: int) -> StoreFolder:
        """Where *size* bytes can be written: a full disk keeps nobody from reading."""
        root = self._store.root
        if self._may_write and os.access(root, os.W_OK) and shutil.disk_usage(root).free > size:
            return self._store
        if self._temporary is None:
            self._temporary = OwnFolder(SCRATCH)
        return StoreFolder(self._temporary.path / "store")


def _put(root: Path, written: Path, target: Path) -> None:
    """Let *written* be *target*, in place of what another process, or a damage, left there."""
    made_in(root, target.parent)
    share_as(root, written)
    with alone(root):
        before = draft_path(root)
        with suppress(FileNotFoundError):
            target.rename(before)
        written.rename(target)
        shutil.rmtree(before, ignore_errors=True)


def _size(entries: Sequence[Entry]) -> int:
    """About so many bytes a view of *entries* takes."""
    size = _LEAST
    for entry in {entry.home: entry for entry in entries}.values():
        with suppress(DamagedStoreError):
            tables = entry.tables
            own = int(entry.manifest.get("bytes", 0)) if tables is None else _GROWTH * tables.bytes
            size += own
    return size


def _current(store: StoreFolder) -> set[str]:
    """The names of what may be asked for again: of each entry, and of all."""
    stamps = store.stamps()
    single = {_name(kind, {one: stamps[one]}) for one in stamps for kind in ("view", "tables")}
    return {*single, _name("view", stamps)}


def _tables_in(folder: Path) -> TableFiles:
    tables = TableFiles.of(folder, read_json(folder / MANIFEST))
    if tables is None or next(tables.damaged(), None):
        raise DamagedStoreError("names no tables", where=str(folder))
    return tables


def _name(kind: str, stamps: Mapping[Path, tuple[int, int]]) -> str:
    return f"{kind}-{_digest(repr(sorted((str(one), *stamp) for one, stamp in stamps.items())))}"


def _digest(text: str) -> str:
    """Another one for another schema, whose views lack columns, and another engine, which may be
    unable to read them."""
    text = f"{SCHEMA_VERSION} {engine_name()} {text}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]
