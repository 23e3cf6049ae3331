"""Read a backup file and put what is in it into a store.

Nothing of the file is trusted: only names of a store's files are unpacked, no more than the file's
length makes likely, and all of it is checked before anything is written to the store.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphstore.contract import GraphStore
from graphstore.cypher.memory import check_memory
from graphstore.embedded import EmbeddedStore
from graphstore.embedded.disk import os_errors
from graphstore.embedded.folders import KINDS
from graphstore.embedded.table_files import check_columns
from graphstore.entry_names import check_name
from graphstore.errors import DivergraphError, InputError, UnknownNameError
from graphstore.own_folder import OwnFolder
from graphstore.transfer.backup import FORMAT, MANIFEST, MEMBER, VERSION, BackupEntry
from graphstore.transfer.copying import CopiedEntry, StoreListing, copy_entries
from graphstore.transfer.first_backups import FIRST_MEMBER, read_first
from graphstore.zip_damage import ZIP_DAMAGE

_MAX_MANIFEST = 2**26
_MAX_RATIO = 250
"""Unpacked bytes for each byte of the file; real runs need up to about 80."""
_SLACK = 2**24
_NO_RECORD = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a made-up record raises."""


class Backup:
    """The backup in the file *path*, unpacked to *store*; see :func:`open_backup`."""

    def __init__(self, path: Path, store: GraphStore) -> None:
        self._path = path
        self.store = store
        listing = StoreListing.of(store)
        self.entries = [BackupEntry(str(listing.kind(name)), name) for name in listing.names()]
        """What is in it."""

    def chosen(self, names: Sequence[str]) -> list[str]:
        """*names*, or those of all entries.

        Raises:
            UnknownNameError: there is none of a name.
        """
        there = [entry.name for entry in self.entries]
        for name in names:
            if name not in there:
                listed = ", ".join(there) if len(there) < 10 else f"{len(there)} others"
                raise UnknownNameError("run or graph in the backup", name, hint=f"it has {listed}")
        return list(dict.fromkeys(names or there))


def restore(
    backup: Backup, store: GraphStore, names: Sequence[str] = (), *, replace_it: bool = False
) -> Iterator[CopiedEntry]:
    """Put the entries called *names*, or all, into *store*; each as it is done.

    As :func:`copy_entries`: a restore that was stopped can be repeated.

    Raises:
        UnknownNameError: the backup has no such entry.
        NameTakenError: names are in use for something else, and not *replace_it*; then
            nothing was written.
    """
    return copy_entries(backup.store, store, backup.chosen(names), replace_it=replace_it)


@contextmanager
def open_backup(path: Path) -> Iterator[Backup]:
    """The backup in the file *path*, unpacked to a folder of this process and checked.

    Raises:
        InputError: there is no such file, it is damaged, or no backup this program knows.
        StoreError: there is no room for it.
    """
    with OwnFolder("backup") as folder:
        root = folder / "store"
        with _archive(path) as archive:
            manifest = _manifest(archive, path)
            if manifest["version"] == VERSION:
                _unpack(archive, path, root)
            else:
                _check_members(archive, path, FIRST_MEMBER)
                with EmbeddedStore(root) as store, _wrong_about(path):
                    read_first(archive, manifest, store)
        with EmbeddedStore(root, read_only=True) as store:
            with _wrong_about(path):
                _check(store, root)
                backup = Backup(path, store)
            yield backup


def _check(store: GraphStore, root: Path) -> None:
    """Return if all that was unpacked is what was written, and nothing that no store writes."""
    for text in store.check():
        raise InputError(text)
    for path in root.rglob("tables/*.parquet"):
        check_columns(path)
    for note in store.notes():
        check_memory(note)
    for baseline in store.baselines():
        check_memory(baseline)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        file = path.open("rb")
    except OSError as error:
        message = error.strerror or str(error)
        raise InputError(f"cannot be read: {message}", where=str(path)) from error
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except (*ZIP_DAMAGE, OSError, ValueError) as error:
            raise _wrong(path, f"it is not a whole zip file: {error}") from error
        with archive:
            try:
                yield archive
            except (*ZIP_DAMAGE, zipfile.LargeZipFile) as error:
                raise _wrong(path, f"it cannot be unpacked: {error}") from error


@contextmanager
def _wrong_about(path: Path) -> Iterator[None]:
    """What is wrong with what was unpacked is wrong with the file *path*."""
    try:
        yield
    except DivergraphError as error:
        raise _wrong(path, error.what) from error
    except _NO_RECORD as error:
        raise _wrong(path, f"{error}"[:200]) from error


def _manifest(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise _wrong(path, f"it is a zip file without {MANIFEST}")
    if archive.getinfo(MANIFEST).file_size > min(_MAX_MANIFEST, _bound(path)):
        raise _wrong(path, f"{MANIFEST} is too long")
    try:
        manifest = json.loads(archive.read(MANIFEST))
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"{MANIFEST} is not JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _wrong(path, f"{MANIFEST} does not say it is a backup")
    version = manifest.get("version")
    if version not in (1, VERSION):
        message = f"it has format version {version!r}, this program reads up to {VERSION}"
        raise _wrong(path, message, hint="use the divergraph that wrote it")
    return manifest


def _check_members(archive: zipfile.ZipFile, path: Path, known: re.Pattern[str]) -> None:
    """Return if the archive has nothing but files of a backup, and could be of its length."""
    infos = archive.infolist()
    if len({info.filename for info in infos}) < len(infos):
        raise _wrong(path, "it has two members of one name")
    for info in infos:
        if info.filename != MANIFEST and not known.fullmatch(info.filename):
            raise _wrong(path, f"{info.filename[:80]!r} is not part of a backup")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _wrong(path, f"{info.filename} is packed in an unknown way")
    if sum(info.file_size for info in infos) > _bound(path):
        raise _wrong(path, "it would unpack to far more than a backup of its length can hold")


def _unpack(archive: zipfile.ZipFile, path: Path, root: Path) -> None:
    _check_members(archive, path, MEMBER)
    for name in archive.namelist():
        if name == MANIFEST:
            continue
        kind, entry, *_ = [*name.split("/"), ""]
        if kind in KINDS:
            with _wrong_about(path):
                check_name(entry)
        target = root / name
        with os_errors("write", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as member, target.open("wb") as file:
                shutil.copyfileobj(member, file, 2**20)


def _bound(path: Path) -> int:
    return path.stat().st_size * _MAX_RATIO + _SLACK


def _wrong(path: Path, message: str, *, hint: str = "") -> InputError:
    return InputError(message, where=str(path), hint=hint or "give a file that `backup` wrote")
