"""The folders of an embedded store: complete entries only, whenever a process dies.

``<root>/store.json`` says the schema version. ``<root>/runs/<name>/`` and
``<root>/graphs/<name>/`` hold ``manifest.json`` and the tables it names; those of runs kept
together are in ``<root>/shared/``, see :mod:`graphstore.embedded.shared_tables`. Databases of the
engine are made of them, see :mod:`graphstore.embedded.views`; earlier versions kept a database in
their place. The folder's name is the entry's name: renaming an entry is renaming its folder, and
what the manifest and the tables say of the name is what it was when they were written. A new entry
is written in ``<root>/.writing-...`` and renamed into place; replacing one adds a second folder of
tables and then swaps the manifest, so there is the old or the new entry at every moment.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, ENOSPC, ENOTDIR, EROFS
from os import strerror
from pathlib import Path
from typing import Any

from graphstore.embedded.disk import (
    SET_ASIDE,
    DamagedStoreError,
    abandoned_drafts,
    alone,
    draft_folder,
    draft_path,
    is_as_written,
    os_errors,
    read_json,
    remove_draft,
    sync,
    write_json,
)
from graphstore.embedded.shared_tables import (
    MANIFEST,
    SHARED,
    is_shared_name,
    publish_shared,
    release,
    shared_by,
    shared_drafts,
)
from graphstore.embedded.table_files import TABLES, TableFiles, manifest_of
from graphstore.errors import NameTakenError, StoreError, UnknownNameError
from graphstore.private_folder import made_in, private_folder, share_as
from graphstore.schema.tables import SCHEMA_VERSION, check_version

STORE = "store.json"
KINDS = ("runs", "graphs")
_LEAST_FREE = 2**20
"""Bytes a disk must have left before anything is written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored run or graph: its folder, manifest and what changes when it is replaced."""

    kind: str
    name: str
    folder: Path
    manifest: Mapping[str, Any]
    stamp: tuple[int, int]

    @property
    def shared(self) -> str | None:
        """The name of the tables it shares with other runs; None if it has its own."""
        name = self.manifest.get("shared")
        return None if name is None else str(name)

    @property
    def home(self) -> Path:
        """The folder of the tables."""
        return self.folder if self.shared is None else self.folder.parents[1] / SHARED / self.shared

    @property
    def tables(self) -> TableFiles | None:
        """The tables; None if an earlier version wrote a database in their place.

        Raises:
            StoreError: the manifest that names them cannot be read.
        """
        manifest = self.manifest if self.shared is None else read_json(self.home / MANIFEST)
        tables = TableFiles.of(self.home, manifest)
        if tables is None and "database" not in self.manifest:
            raise DamagedStoreError("names no tables", where=str(self.home / MANIFEST))
        return tables

    @property
    def database(self) -> Path:
        """The database file of an entry without tables."""
        return self.home / str(self.manifest["database"])

    def damaged(self) -> list[Path]:
        """Its files that are not what was written.

        Raises:
            StoreError: the manifest that names them cannot be read.
        """
        tables = self.tables
        if tables is not None:
            return list(tables.damaged())
        return [] if is_as_written(self.database, self.manifest) else [self.database]


class StoreFolder:
    """The folder tree of one store; knows nothing of databases.

    ``store.json`` says the schema version; so does each entry, for who copies one by hand.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self) -> bool:
        """True if there is a store; False if nothing is there yet.

        Raises:
            StoreError: something else is there, or a store of another version.
            DamagedStoreError: ``store.json`` is not what was written.
        """
        with os_errors("read", self.root):
            if not self.root.exists():
                return False
            if not self.root.is_dir():
                raise StoreError("the store is a file, not a folder", where=str(self.root))
            if not (self.root / STORE).exists():
                if any(next(self.root.glob(f"{kind}/*/{MANIFEST}"), None) for kind in KINDS):
                    where = str(self.root / STORE)
                    raise DamagedStoreError(
                        "is missing, though there are runs or graphs", where=where, hint=_LOST
                    )
                return False
        check_version(self.version(), str(self.root))
        return True

    def version(self) -> int:
        """The schema version of the store that is there."""
        path = self.root / STORE
        version = read_json(path).get("schema")
        if not isinstance(version, int):
            raise DamagedStoreError(
                "does not say its schema version", where=str(path), hint=_DAMAGED
            )
        return version

    def check_writable(self) -> None:
        """Return if a draft can be written, or the store made; leaves nothing there.

        Raises:
            StoreError: the place cannot be written.
        """
        if self.check():
            with self.writing():
                return
        with os_errors("write", self.root):
            place = self.root
            while not place.exists() and place != place.parent:
                place = place.parent
            if not place.is_dir():
                raise NotADirectoryError(ENOTDIR, strerror(ENOTDIR))
            if not os.access(place, os.W_OK | os.X_OK):
                locked = hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY
                reason = EROFS if locked else EACCES
                raise OSError(reason, strerror(reason))

    def entries(self, kind: str) -> list[Entry]:
        """All entries of a kind (``runs`` or ``graphs``) by name."""
        if not self.check():
            return []
        folder = self.root / kind
        with os_errors("read", folder):
            names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        entries = (self.entry(kind, name) for name in names if not name.startswith("."))
        return [entry for entry in entries if entry is not None]

    def entry(self, kind: str, name: str) -> Entry | None:
        """One entry, or None."""
        folder = self.root / kind / name
        path = folder / MANIFEST
        with os_errors("read", path):
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        manifest = read_json(path)
        if not (isinstance(manifest.get("database"), str) or {"tables", "shared"} & {*manifest}):
            raise DamagedStoreError("names no tables", where=str(path), hint=_DAMAGED)
        check_version(manifest.get("schema"), str(path))
        if not is_shared_name(manifest.get("shared")):
            raise StoreError("names no shared tables", where=str(path), hint=_DAMAGED)
        return Entry(kind, name, folder, manifest, (status.st_ino, status.st_mtime_ns))

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """A fresh folder inside the store for a new entry; gone afterwards, come what may."""
        with ExitStack() as stack:
            with os_errors("write", self.root):
                self._create()
                for path in abandoned_drafts(self.root):
                    remove_draft(path)
                if shutil.disk_usage(self.root).free < _LEAST_FREE:
                    raise OSError(ENOSPC, strerror(ENOSPC))
                folder = stack.enter_context(draft_folder(self.root))
            yield folder

    def publish(
        self,
        kind: str,
        name: str,
        written: Path,
        manifest: dict[str, Any],
        *,
        replace: bool = False,
        stamps: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Make *written* (a folder from :meth:`writing` with tables) the entry.

        Processes that publish at once do so one after the other. With *stamps*, by name, only an
        entry that still has its stamp is replaced.

        Raises:
            NameTakenError: there is an entry of this name, perhaps since a moment only,
                and it is not to be replaced.
        """
        target = self.root / kind / name
        with os_errors("write", target):
            tables = manifest_of(written / TABLES)
            manifest = {"schema": SCHEMA_VERSION, **manifest, "tables": tables}
            with alone(self.root):
                self._mark_older()
                self._check_free(kind, name, replace, stamps or {})
                if target.exists():
                    self._swap(target, written, manifest)
                    return
                write_json(written / MANIFEST, manifest)
                share_as(self.root, written)
                sync(written)
                written.rename(target)
                sync(target.parent)

    def publish_together(
        self,
        written: Path,
        manifests: Mapping[str, Mapping[str, Any]],
        *,
        replace: bool = False,
        stamps: Mapping[str, tuple[int, int]] | None = None,
    ) -> tuple[str, ...]:
        """Make runs by name of *written*, whose tables are those of all; as :meth:`publish`.

        Returns the names that were taken since a moment: there is no such run.
        """
        if len(manifests) == 1:
            ((name, manifest),) = manifests.items()
            try:
                self.publish("runs", name, written, {**manifest}, replace=replace, stamps=stamps)
            except NameTakenError:
                return (name,)
            return ()
        with os_errors("write", self.root):
            shared, drafts = shared_drafts(written, manifests)
            share_as(self.root, written)
            published = []
            with alone(self.root):
                self._mark_older()
                publish_shared(self.root, written, shared)
                for name, draft in drafts.items():
                    target = self.root / "runs" / name
                    try:
                        self._check_free("runs", name, replace, stamps or {})
                    except NameTakenError:
                        published.append(name)
                        continue
                    if target.exists():
                        self._take_over(target, draft / MANIFEST)
                    else:
                        draft.rename(target)
                sync(self.root / "runs")
                release(self.root, shared)  # if all names were taken
        return tuple(published)

    def rename(self, entry: Entry, new_name: str) -> None:
        """Give an entry another name, in one step.

        Raises:
            NameTakenError: there is an entry of that name, perhaps since a moment only.
            UnknownNameError: the entry is gone since a moment.
        """
        target = entry.folder.with_name(new_name)
        with os_errors("write", entry.folder), alone(self.root):
            for kind in KINDS:
                if (self.root / kind / new_name).exists():
                    raise NameTakenError.by("run" if kind == "runs" else "graph", new_name)
            try:
                entry.folder.rename(target)
            except FileNotFoundError as error:
                raise UnknownNameError("run or graph", entry.name) from error
            sync(target.parent)

    def remove(self, entry: Entry) -> None:
        """Delete an entry: invisible at once, then gone."""
        with os_errors("delete", entry.folder):
            doomed = draft_path(self.root)
            with alone(self.root):
                try:
                    entry.folder.rename(doomed)
                except FileNotFoundError as error:
                    raise UnknownNameError("run or graph", entry.name) from error
                sync(entry.folder.parent)
                release(self.root, entry.shared)
            shutil.rmtree(doomed)

    def stamps(self) -> dict[Path, tuple[int, int]]:
        """The folders of all entries with what changes when they are replaced."""
        stamps = {}
        for kind in KINDS:
            with os_errors("read", self.root / kind):
                for path in sorted((self.root / kind).glob(f"*/{MANIFEST}")):
                    with suppress(FileNotFoundError):  # deleted since it was listed
                        status = path.stat()
                        stamps[path.parent] = (status.st_ino, status.st_mtime_ns)
        return stamps

    def _swap(self, target: Path, written: Path, manifest: dict[str, Any]) -> None:
        tables = f"{TABLES}-{secrets.token_hex(4)}"
        (written / TABLES).rename(target / tables)
        fresh = written / MANIFEST
        write_json(fresh, {**manifest, "tables": {**manifest["tables"], "folder": tables}})
        share_as(self.root, fresh, target / tables)
        self._take_over(target, fresh, tables)

    def _take_over(self, target: Path, fresh: Path, *new: str) -> None:
        """Let the manifest *fresh* be that of *target*, with these *new* files there."""
        before = shared_by(target / MANIFEST)
        fresh.replace(target / MANIFEST)
        sync(target)
        for path in target.iterdir():
            if path.is_dir() and path.name not in new:
                shutil.rmtree(path)
            elif path.name not in (MANIFEST, *new):
                path.unlink()
        release(self.root, before)

    def _check_free(
        self, kind: str, name: str, replace: bool, stamps: Mapping[str, tuple[int, int]]
    ) -> None:
        is_taken = any((self.root / kind / name / MANIFEST).exists() for kind in KINDS)
        may_replace = replace and (self.root / kind / name).exists()
        if name in stamps:
            entry = self.entry(kind, name)
            is_taken, may_replace = True, entry is not None and entry.stamp == stamps[name]
        if is_taken and not may_replace:
            message = f"{name!r} was saved by someone else just now"
            raise NameTakenError(message, hint="use another name")

    def _create(self) -> None:
        if self.check():
            return
        private_folder(self.root)
        for kind in KINDS:
            made_in(self.root, self.root / kind)
        self.mark()

    def _mark_older(self) -> None:
        """Say of an older store that it has new entries, too."""
        if self.version() != SCHEMA_VERSION:
            self.mark()

    def mark(self) -> None:
        """Say the schema version of new entries."""
        draft = draft_path(self.root)
        write_json(draft, {"schema": SCHEMA_VERSION})
        share_as(self.root, draft)
        draft.replace(self.root / STORE)
        sync(self.root)


_DAMAGED = f"the store is damaged here; {SET_ASIDE}"
_LOST = "`divergraph store repair --set-aside` makes it again"
