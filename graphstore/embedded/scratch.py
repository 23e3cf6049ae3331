"""Derived databases of an embedded store: for Cypher that must see several entries or a new
name, and of packed ones. They are made when first asked for, and again when an entry changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from graphstore.cypher.statements import load_statements
from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.disk import DamagedStoreError, os_errors
from graphstore.embedded.engine_version import engine_name, is_own_form
from graphstore.embedded.entry_facts import damaged, entry_info
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.merged_tables import MergedTables
from graphstore.embedded.shared_databases import SHARED, is_packed, unpack
from graphstore.embedded.table_writing import write_tables
from graphstore.embedded.write_process import writing
from graphstore.errors import StoreError
from graphstore.own_folder import OwnFolder
from graphstore.schema.codec import plain_text
from graphstore.schema.tables import SCHEMA_VERSION

_STATEMENTS = load_statements("entries.embedded")

DATABASE = "graph.lbug"
_UNPACKED = "unpacked-"
_MOST_UNPACKED = 4
"""So many packed databases are kept unpacked, too."""


class Scratch:
    """The derived databases of the store in *folder*.

    They lie in the store, or in a folder of this process where *may_write* says no.
    """

    def __init__(self, folder: StoreFolder, *, may_write: bool) -> None:
        self._store = folder
        self._may_write = may_write
        self._temporary: OwnFolder | None = None

    # One query reads one database: the engine joins nothing across files. So entries are put
    # together, and a rename is made true in a copy, as the file of an entry never changes.

    def merged(self, entries: Sequence[Entry], open_: Callable[[Entry], ReadDatabase]) -> Entry:
        """A database of all *entries*, whose own ones *open_* opens."""

        def make(path: Path) -> None:
            tables = MergedTables.of((entry, open_(entry)) for entry in entries)
            write_tables(path, tables.tables())

        return self._made(_merged_name(self._store), make)

    def named(self, entry: Entry, open_: Callable[[Entry], ReadDatabase]) -> Entry:
        """A copy of an entry's database that says its name of now, and of no other run; its key,
        for which ``$run`` stands, is as it was. It has all tables that are written now."""

        def make(path: Path) -> None:
            if entry.shared is not None or entry.is_older:
                tables = MergedTables.of([(entry, open_(entry))], same_keys=True)
                write_tables(path, tables.tables())
                return
            shutil.copyfile(self.readable(entry).database, path)
            with writing() as writer:
                writer.change(path, _naming(entry))

        return self._made(_name("named", entry.folder, entry.stamp), make)

    def unpacked(self, entry: Entry) -> Entry:
        """The packed database of an entry as the engine reads it."""

        def make(path: Path) -> None:
            with os_errors("unpack", path):
                unpack(entry.database, path)

        return self._made(f"{_UNPACKED}{entry.shared}", make, entry.manifest["unpacked"])

    def readable(self, entry: Entry) -> Entry:
        """A database that the engine may open: that of *entry*, or one made of its tables where it
        is lost, damaged or of another version of the engine. A newer one may write its own form
        into what it opens, and the other could not read it again.

        Raises:
            DamagedStoreError: neither the database nor the tables are what was written.
            StoreError: a newer version of the engine wrote it, and there are no tables.
        """
        if not entry.is_unchanged():
            return self._of_tables(entry, damaged(entry, entry.database.name))
        try:
            usable = self.unpacked(entry) if is_packed(entry.database) else entry
            if is_own_form(usable.database, entry.engine):
                return usable
            problem = None
        except DamagedStoreError:
            raise
        except StoreError as error:
            problem = error
        return self._of_tables(entry, problem)

    def _of_tables(self, entry: Entry, problem: StoreError | None) -> Entry:
        """The database made of an entry's tables; without tables a copy, unless *problem* says
        that there is nothing to copy."""
        tables = entry.tables
        if tables is None and problem is not None:
            raise problem

        def make(path: Path) -> None:
            if tables is None:
                shutil.copyfile(entry.database, path)
                return
            try:
                write_tables(path, tables.tables())
            except DamagedStoreError as error:
                raise damaged(entry, error.where) from error

        if entry.shared is not None:
            name = f"{_UNPACKED}{entry.shared}-{_digest('')}"
        else:
            name = _name("read", entry.folder, entry.stamp)
        return self._made(name, make, entry.manifest.get("unpacked", entry.manifest["bytes"]))

    def orphans(self) -> list[Path]:
        """The derived databases in the store that no question can use any more."""
        keep = _current(self._store, self._store)
        return [path for path in self._store.scratch() if path.name not in keep]

    def close(self) -> None:
        """Remove the folder of this process."""
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None

    def _made(self, name: str, make: Callable[[Path], None], size: int = 0) -> Entry:
        folder = self._folder(size)
        entry = _usable(folder, name)
        if entry is None:
            with folder.writing() as written:
                make(written / DATABASE)
                folder.drop_scratch(_current(self._store, folder))
                folder.publish("scratch", name, written, {"kind": "scratch"})
            entry = _usable(folder, name)
        if entry is None:
            raise StoreError("a derived database vanished", where=str(folder.root), retryable=True)
        return entry

    def _folder(self, size: int) -> StoreFolder:
        """Where *size* bytes can be written: a full disk keeps nobody from reading."""
        root = self._store.root
        if self._may_write and os.access(root, os.W_OK):
            free = shutil.disk_usage(root).free
            if free > size or not size:
                return self._store
        if self._temporary is None:
            self._temporary = OwnFolder("scratch")
        return StoreFolder(self._temporary.path / "store")


def _usable(folder: StoreFolder, name: str) -> Entry | None:
    """A derived database, or None: a damaged one is made again."""
    with suppress(DamagedStoreError):
        entry = folder.entry("scratch", name)
        if entry is not None and entry.is_unchanged():
            return entry
    return None


def _naming(entry: Entry) -> list[tuple[str, dict[str, object]]]:
    name = plain_text(entry.name)
    if entry.kind == "runs":
        return [(_STATEMENTS["name_run"], {"name": name})]
    created = entry_info(entry).created
    return [
        (_STATEMENTS["drop_imports"], {}),
        (_STATEMENTS["name_graph"], {"name": name, "created": created}),
    ]


def _current(store: StoreFolder, folder: StoreFolder) -> set[str]:
    """The names of those derived databases in *folder* that may be asked again."""
    stamps = store.stamps().items()
    names = {_name(kind, *entry) for kind in ("named", "read") for entry in stamps}
    return {*names, _merged_name(store), *_last_unpacked(store, folder)}


def _last_unpacked(store: StoreFolder, folder: StoreFolder) -> list[str]:
    packed = {path.name for path in (store.root / SHARED).glob("*")}
    paths = [path for path in folder.scratch() if _shared_name(path) in packed]
    with suppress(FileNotFoundError):  # another process removes one
        paths.sort(key=lambda path: path.stat().st_mtime)
    return [path.name for path in paths[-_MOST_UNPACKED:]]


def _shared_name(path: Path) -> str:
    """The shared database that a derived one is made of, if it is one of these."""
    return path.name.removeprefix(_UNPACKED).partition("-")[0]


def _merged_name(store: StoreFolder) -> str:
    stamps = [(str(folder), *stamp) for folder, stamp in store.stamps().items()]
    return f"merged-{_digest(repr(sorted(stamps)))}"


def _name(kind: str, folder: Path, stamp: tuple[int, int]) -> str:
    return f"{kind}-{_digest(repr((str(folder), *stamp)))}"


def _digest(text: str) -> str:
    """Another one for another schema, whose derived databases lack columns, and another engine,
    which may be unable to read them."""
    text = f"{SCHEMA_VERSION} {engine_name()} {text}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]
