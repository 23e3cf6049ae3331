"""The tables of an entry as Parquet files: the run itself, which any program reads.

The folder ``tables`` beside a manifest has ``<label or type>.parquet`` for each table with rows, in
the columns of :mod:`graphstore.schema.tables`; relationships begin with ``from`` and ``to``. The
manifest says the folder's name, and length and SHA-256 of each file. The engine's database follows
from them: a lost, damaged or foreign one is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.embedded.disk import DamagedStoreError, file_sha256, os_errors, sync
from graphstore.errors import StoreError
from graphstore.schema.tables import NODES, RELS

TABLES = "tables"
_ENDING = ".parquet"
_IN_ORDER = (*(node.label for node in NODES), *(rel.type for rel in RELS))
"""Relationships come after the nodes that they join."""


def write_table_file(folder: Path, name: str, rows: Any) -> None:
    """Write an Arrow table to *folder*, which is made if need be.

    Raises:
        StoreError: it cannot be written.
    """
    from pyarrow.parquet import write_table

    with os_errors("write", folder):
        if not folder.exists():
            folder.mkdir()
        with (folder / f"{name}{_ENDING}").open("wb") as file:
            write_table(rows, file, compression="zstd")


def manifest_of(folder: Path) -> dict[str, object]:
    """What a manifest says of the tables in *folder*, once they are down on the disk."""
    paths = [folder / f"{name}{_ENDING}" for name in _IN_ORDER]
    files = {}
    for path in paths:
        if path.exists():
            sync(path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    sync(folder)
    return {"folder": folder.name, "files": files}


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The tables that a manifest in *home* says are there."""

    folder: Path
    files: Mapping[str, Mapping[str, object]]

    @classmethod
    def of(cls, home: Path, manifest: Mapping[str, Any]) -> TableFiles | None:
        """Those of the entry in *home*; None if it was written without, by an earlier version.

        Raises:
            DamagedStoreError: the manifest says what no writer says.
        """
        said = manifest.get("tables")
        if said is None:
            return None
        folder, files = (said.get(key) for key in ("folder", "files"))
        known = {f"{name}{_ENDING}" for name in _IN_ORDER}
        if not isinstance(folder, str) or Path(folder).name != folder or not files.keys() <= known:
            raise DamagedStoreError("names no tables", where=str(home))
        return cls(home / folder, files)

    def damaged(self) -> Iterator[Path]:
        """The files that are missing, cut or changed."""
        for name, facts in self.files.items():
            path = self.folder / name
            if not _is_as_written(path, facts):
                yield path

    def tables(self) -> Iterator[tuple[str, Any]]:
        """(name, Arrow table) of each table, nodes first, each read when it is asked for.

        Raises:
            DamagedStoreError: one is not what was written.
        """
        from pyarrow.parquet import read_table

        for name in _IN_ORDER:
            file = f"{name}{_ENDING}"
            if file not in self.files:
                continue
            path = self.folder / file
            if not _is_as_written(path, self.files[file]):
                raise DamagedStoreError("is missing, cut or changed", where=str(path))
            try:
                rows = read_table(path, memory_map=False)
            except (OSError, ValueError) as error:
                raise StoreError(f"cannot be read: {error}", where=str(path)) from error
            yield name, rows


def _is_as_written(path: Path, facts: Mapping[str, object]) -> bool:
    with os_errors("read", path):
        try:
            return path.stat().st_size == facts["bytes"] and file_sha256(path) == facts["sha256"]
        except (FileNotFoundError, NotADirectoryError):
            return False
