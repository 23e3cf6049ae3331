"""The folders of an embedded store: complete entries only, whenever a process dies.

``<root>/store.json`` says the schema version. ``<root>/runs/<name>/`` and
``<root>/graphs/<name>/`` hold ``manifest.json`` and the database file it names. A new
entry is written in ``<root>/.writing-...`` and renamed into place; replacing one adds a
second database file and then swaps the manifest, so there is the old or the new entry at
every moment.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.errors import NameTakenError, StoreError
from graphstore.schema import SCHEMA_VERSION

_WRITING = ".writing-"
_STALE_SECONDS = 24 * 3600.0
MANIFEST = "manifest.json"
KINDS = ("runs", "graphs")


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored run or graph: its folder, manifest and what changes when it is replaced."""

    kind: str
    name: str
    folder: Path
    manifest: Mapping[str, Any]
    stamp: tuple[int, int]

    @property
    def database(self) -> Path:
        """The database file."""
        return self.folder / str(self.manifest["database"])

    def is_whole(self) -> bool:
        """True if the database file is there in its full length."""
        try:
            return self.database.stat().st_size == self.manifest.get("bytes")
        except OSError:
            return False


class StoreFolder:
    """The folder tree of one store; knows nothing of databases."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self) -> bool:
        """True if there is a store; False if nothing is there yet.

        Raises:
            StoreError: something else is there, or a store of a newer version.
        """
        path = self.root / "store.json"
        with _os_errors("read", self.root):
            if not self.root.exists():
                return False
            if not self.root.is_dir():
                raise StoreError("the store is a file, not a folder", where=str(self.root))
            if not path.exists():
                return False
        version = self._read_json(path).get("schema")
        if not isinstance(version, int):
            raise StoreError("does not say its schema version", where=str(path))
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the store has schema version {version}, this program knows {SCHEMA_VERSION}",
                where=str(self.root),
                hint="install a newer divergraph",
            )
        return True

    def entries(self, kind: str) -> list[Entry]:
        """All entries of a kind (``runs`` or ``graphs``) by name."""
        if not self.check():
            return []
        folder = self.root / kind
        with _os_errors("read", folder):
            names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        found = (self.entry(kind, name) for name in names if not name.startswith("."))
        return [entry for entry in found if entry is not None]

    def entry(self, kind: str, name: str) -> Entry | None:
        """One entry, or None."""
        folder = self.root / kind / name
        path = folder / MANIFEST
        with _os_errors("read", path):
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        manifest = self._read_json(path)
        if not isinstance(manifest.get("database"), str):
            raise StoreError("names no database file", where=str(path), hint=_DAMAGED)
        return Entry(kind, name, folder, manifest, (status.st_ino, status.st_mtime_ns))

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """A fresh folder inside the store for a new entry; gone afterwards, come what may."""
        with _os_errors("write", self.root):
            self._create()
            self._clean()
            folder = self.root / _draft_name()
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(
        self,
        kind: str,
        name: str,
        written: Path,
        manifest: dict[str, Any],
        *,
        replace: bool = False,
    ) -> None:
        """Make *written* (a folder from :meth:`writing` with one database file) the entry.

        Processes that publish at once do so one after the other.

        Raises:
            NameTakenError: there is an entry of this name, perhaps since a moment only,
                and it is not to be replaced.
        """
        target = self.root / kind / name
        with _os_errors("write", target):
            database = next(path for path in written.iterdir() if path.suffix == ".lbug")
            _sync(database)
            manifest = {**manifest, "bytes": database.stat().st_size}
            with _alone(self.root):
                taken = any((self.root / each / name / MANIFEST).exists() for each in KINDS)
                if taken and not (replace and target.exists()):
                    raise NameTakenError(
                        f"{name!r} was saved by someone else just now", hint="use another name"
                    )
                if target.exists():
                    self._swap(target, database, manifest)
                    return
                _write_json(written / MANIFEST, {**manifest, "database": database.name})
                _sync(written)
                written.rename(target)
                _sync(target.parent)

    def remove(self, entry: Entry) -> None:
        """Delete an entry: invisible at once, then gone."""
        with _os_errors("delete", entry.folder):
            doomed = self.root / _draft_name()
            entry.folder.rename(doomed)
            shutil.rmtree(doomed)

    def drop_scratch(self) -> None:
        """Remove the merged databases; they can be made again."""
        scratch = self.root / "scratch"
        with _os_errors("write", scratch):
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(exist_ok=True)

    def _swap(self, target: Path, database: Path, manifest: dict[str, Any]) -> None:
        name = f"graph-{_token()}.lbug"
        database.rename(target / name)
        fresh = database.parent / MANIFEST
        _write_json(fresh, {**manifest, "database": name})
        fresh.replace(target / MANIFEST)
        _sync(target)
        for path in target.iterdir():
            if path.name not in (MANIFEST, name):
                path.unlink()

    def _create(self) -> None:
        if self.check():
            return
        for kind in KINDS:
            (self.root / kind).mkdir(parents=True, exist_ok=True)
        draft = self.root / _draft_name()
        _write_json(draft, {"schema": SCHEMA_VERSION})
        draft.replace(self.root / "store.json")
        _sync(self.root)

    def _clean(self) -> None:
        """Remove what processes that are gone left half-written."""
        for path in self.root.glob(f"{_WRITING}*"):
            if _is_abandoned(path):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _read_json(self, path: Path) -> dict[str, Any]:
        with _os_errors("read", path):
            text = path.read_bytes()
        try:
            value = json.loads(text)
        except ValueError as error:
            raise StoreError(f"is not JSON: {error}", where=str(path), hint=_DAMAGED) from error
        if not isinstance(value, dict):
            raise StoreError("is not a JSON object", where=str(path), hint=_DAMAGED)
        return value


_DAMAGED = "the store is damaged here; delete this folder and make it again"


def _is_abandoned(path: Path) -> bool:
    host, _, rest = path.name.removeprefix(_WRITING).rpartition("-")[0].rpartition("-")
    if host == socket.gethostname() and rest.isdecimal() and os.name == "posix":
        try:
            os.kill(int(rest), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False
    try:
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


def _draft_name() -> str:
    """A new name that says whose draft it is: drafts of dead processes are removed."""
    return f"{_WRITING}{socket.gethostname()}-{os.getpid()}-{_token()}"


def _token() -> str:
    return secrets.token_hex(4)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return  # only POSIX systems can sync a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process is in such a block for *folder*; where the system can do that."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:  # not a POSIX system: renames keep entries whole there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system without locks must do, too: renames keep entries whole there.
        with suppress(OSError):
            flock(handle, LOCK_EX)  # ends with the handle, however the process ends
        yield
    finally:
        os.close(handle)


@contextmanager
def _os_errors(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {what} the store: {reason}", where=str(path)) from error
