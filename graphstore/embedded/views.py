"""Databases of the engine, made of the tables of entries when they are first asked for.

They lie in ``<root>/scratch`` and can be made again: of one entry, of one under another name than
it was written with, and of several together, as one query reads one database.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from graphstore.embedded.older_databases import older_tables
from graphstore.embedded.shared_tables import MANIFEST, SHARED
from graphstore.embedded.table_files import (
    TABLE_NAMES,
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

    def of(self, entry: Entry, only: Tables = None) -> View:
        """What the tables of an entry say, those of other runs in them included; *only* these, with
        the nodes that they join, if there is no view of all.

        Raises:
            DamagedStoreError: they are not what was written.
            StoreError: a newer version of the engine wrote it, and there are no tables.
        """

        def files(_draft: Path) -> Path:
            tables = self.tables(entry)
            if path := next(tables.damaged(), None):
                raise damaged(entry, str(path))
            return tables.folder

        return self._made(_name_of(entry), files, _size([entry]), only)

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
        folder = self._folder(_size([entry]))
        target = folder.root / SCRATCH / _older_name(entry)
        with suppress(StoreError):
            return _tables_in(target)
        with folder.writing() as written, older_tables(entry) as older:
            write_table_files(written / TABLES, ((name, older.table(name)) for name in TABLE_NAMES))
            with os_errors("write", target):
                write_json(written / MANIFEST, {"tables": manifest_of(written / TABLES)})
                _put(folder.root, written, target)
        return _tables_in(target)

    def named(self, entry: Entry, only: Tables = None) -> View:
        """The same of an entry alone, under its name of now; its key, for which ``$run`` stands, is
        as it was."""
        name = _name("named", entry.folder, entry.stamp)
        return self._merged(name, [entry], only, same_keys=True)

    def merged(self, entries: Sequence[Entry], only: Tables = None) -> View:
        """All *entries* together."""
        return self._merged(_merged_name(self._store), entries, only, same_keys=False)

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

    def _merged(
        self, name: str, entries: Sequence[Entry], only: Tables, *, same_keys: bool
    ) -> View:
        def files(draft: Path) -> Path:
            homes = {entry.home: entry for entry in entries}
            by_home = {home: self.tables(entry) for home, entry in homes.items()}
            tables = [(entry, by_home[entry.home]) for entry in entries]
            write_table_files(draft, MergedTables.of(tables, same_keys=same_keys))
            return draft

        return self._made(name, files, _size(entries), only)

    def _made(self, name: str, files: Callable[[Path], Path], size: int, only: Tables) -> View:
        """The view *name*, made of the tables in the folder that *files* gives, which may be the
        one it is given."""
        folder = self._folder(size)
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
            paths = paths_in(files(written / TABLES))
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
    """The names of the views that may be asked again."""
    stamps = store.stamps().items()
    names = {_name("named", *entry) for entry in stamps}
    homes = [
        *(stamp for _, stamp in stamps),
        *(one.name for one in (store.root / SHARED).glob("*")),
    ]
    views = {name(home) for home in homes for name in (_view_name, _older)}
    return {*names, *views, _merged_name(store)}


def _tables_in(folder: Path) -> TableFiles:
    tables = TableFiles.of(folder, read_json(folder / MANIFEST))
    if tables is None or next(tables.damaged(), None):
        raise DamagedStoreError("names no tables", where=str(folder))
    return tables


def _name_of(entry: Entry) -> str:
    return _view_name(entry.shared or entry.stamp)


def _older_name(entry: Entry) -> str:
    return _older(entry.shared or entry.stamp)


def _older(of: object) -> str:
    return f"tables-{_digest(repr(of))}"


def _view_name(of: object) -> str:
    return f"view-{_digest(repr(of))}"


def _merged_name(store: StoreFolder) -> str:
    stamps = [(str(folder), *stamp) for folder, stamp in store.stamps().items()]
    return f"merged-{_digest(repr(sorted(stamps)))}"


def _name(kind: str, folder: Path, stamp: tuple[int, int]) -> str:
    return f"{kind}-{_digest(repr((str(folder), *stamp)))}"


def _digest(text: str) -> str:
    """Another one for another schema, whose views lack columns, and another engine, which may be
    unable to read them."""
    text = f"{SCHEMA_VERSION} {engine_name()} {text}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]
