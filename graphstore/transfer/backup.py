"""Write runs and graphs of any store to one file: a folder of the embedded store, zipped.

The first member, ``divergraph-backup.json``, says the format, its version and what is in it; the
others are the files of :mod:`graphstore.embedded.folders`, so an unpacked backup is a store. Their
manifests have the length and SHA-256 of each table.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from graphstore.contract import GraphStore
from graphstore.embedded import EmbeddedStore
from graphstore.errors import InputError
from graphstore.own_folder import OwnFolder
from graphstore.transfer.copying import StoreListing, copy_entries

MANIFEST = "divergraph-backup.json"
FORMAT = "divergraph-backup"
VERSION = 2
"""Raised when its form changes."""
_TABLES = r"manifest\.json|tables/\w+\.parquet"
MEMBER = re.compile(
    rf"store\.json|memory/\w+/\w+\.json|(?:(?:runs|graphs)/[^/]+|shared/[0-9a-f]{{16}})/(?:{_TABLES})"
)
"""The files of a store that cannot be made again."""


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """A ``run`` or ``graph`` (*kind*) of a backup, and its name."""

    kind: str
    name: str


def write_backup(
    store: GraphStore, file: BinaryIO, names: Sequence[str] = ()
) -> Iterator[BackupEntry]:
    """Write the runs and graphs called *names*, or all, to *file*; each as it is copied.

    The file is whole when the iterator has ended.

    Raises:
        UnknownNameError: there is no run or graph of a name.
        InputError: the store is empty.
    """
    wanted = names or StoreListing.of(store).names()
    if not wanted:
        raise InputError("the store is empty: there is nothing to back up", where=store.url)
    with OwnFolder("backup") as folder, EmbeddedStore(folder / "store") as copy:
        entries = []
        for copied in copy_entries(store, copy, dict.fromkeys(wanted)):
            entries.append(BackupEntry(copied.kind, copied.name))
            yield entries[-1]
        _pack(folder / "store", file, entries)


def _pack(root: Path, file: BinaryIO, entries: Sequence[BackupEntry]) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "entries": [asdict(entry) for entry in entries],
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1) + "\n")
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if MEMBER.fullmatch(name):
                # tables are compressed already
                is_table = path.suffix == ".parquet"
                archive.write(path, name, zipfile.ZIP_STORED if is_table else None)
