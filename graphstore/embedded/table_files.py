"""The tables of an entry as Parquet files: the run itself, which any program reads.

The folder ``tables`` beside a manifest has ``<label or type>.parquet`` for each table with rows, in
the columns of :mod:`graphstore.schema.tables`; relationships begin with ``from`` and ``to``. The
manifest says the folder's name, and length and SHA-256 of each file. Databases of an engine follow
from them and are made again when they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphstore.embedded.arrow_rows import arrow_types, table_columns
from graphstore.embedded.disk import DamagedStoreError, file_facts, is_as_written, os_errors, sync
from graphstore.errors import InputError, StoreError
from graphstore.schema.tables import NODES, RELS

TABLES = "tables"
_GROUP = 2**14
"""Rows read at once: a look-up of one among a million reads so many. With four times as many `op`
takes a fifth more time and a quarter more memory."""
_ENDING = ".parquet"
TABLE_NAMES = (*(node.label for node in NODES), *(rel.type for rel in RELS))
"""Relationships come after the nodes that they join."""


def write_table_files(folder: Path, tables: Iterable[tuple[str, Any]]) -> None:
    """Write (name, Arrow table or None) to *folder*, which is made if need be.

    Raises:
        StoreError: one cannot be written.
    """
    from pyarrow.parquet import write_table

    with os_errors("write", folder):
        folder.mkdir(exist_ok=True)
        for name, rows in tables:
            if rows is not None and len(rows):
                with (folder / f"{name}{_ENDING}").open("wb") as file:
                    write_table(
                        rows, file, compression="zstd", row_group_size=_GROUP, **_encodings(rows)
                    )


def _encodings(rows: Any) -> dict[str, Any]:
    """How *rows* are written: whole numbers as differences, as most ascend (half of the time and of
    the bytes); dictionaries only of what repeats, as they are tried in vain elsewhere."""
    from pyarrow.types import is_dictionary, is_integer, is_list

    repeated = [field.name for field in rows.schema if is_dictionary(field.type)]
    lists = [f"{field.name}.list.element" for field in rows.schema if is_list(field.type)]
    numbers = [field.name for field in rows.schema if is_integer(field.type)]
    return {
        "use_dictionary": repeated + lists,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }


def manifest_of(folder: Path) -> dict[str, object]:
    """What a manifest says of the tables in *folder*, once they are down on the disk."""
    files = {}
    for _, path in paths_in(folder):
        sync(path)
        files[path.name] = file_facts(path)
    sync(folder)
    return {"folder": folder.name, "files": files}


def paths_in(folder: Path) -> list[tuple[str, Path]]:
    """(name, file) of each table in *folder*, nodes first."""
    paths = ((name, folder / f"{name}{_ENDING}") for name in TABLE_NAMES)
    return [(name, path) for name, path in paths if path.exists()]


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
        known = {f"{name}{_ENDING}" for name in TABLE_NAMES}
        if not isinstance(folder, str) or Path(folder).name != folder or not files.keys() <= known:
            raise DamagedStoreError("names no tables", where=str(home))
        return cls(home / folder, files)

    @property
    def bytes(self) -> int:
        """The length of all files."""
        return sum(int(str(facts["bytes"])) for facts in self.files.values())

    def damaged(self) -> Iterator[Path]:
        """The files that are missing, cut or changed."""
        for name, facts in self.files.items():
            if not is_as_written(self.folder / name, facts):
                yield self.folder / name

    def path(self, name: str) -> Path | None:
        """The file of a label or relationship type, None if it has no rows.

        Raises:
            DamagedStoreError: it is not what was written.
        """
        file = f"{name}{_ENDING}"
        if file not in self.files:
            return None
        path = self.folder / file
        if not is_as_written(path, self.files[file]):
            raise DamagedStoreError("is missing, cut or changed", where=str(path))
        return path

    def table(self, name: str) -> Any:
        """The Arrow table of a label or relationship type, None if it has no rows.

        Raises:
            StoreError: it cannot be read.
        """
        from pyarrow.parquet import read_table

        path = self.path(name)
        if path is None:
            return None
        try:
            return read_table(path, memory_map=False)
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot be read: {error}", where=str(path)) from error


def check_columns(path: Path) -> None:
    """Return if a table in the file *path* could be one of ours.

    Raises:
        InputError: it has other columns.
    """
    import pyarrow as pa
    from pyarrow.parquet import read_schema

    try:
        known = {column.name: column.type for column in table_columns(path.stem)}
        types = arrow_types()
        for field in read_schema(path):
            pa.nulls(0, field.type).cast(types[known[field.name]])
    except (OSError, LookupError, ValueError, NotImplementedError) as error:
        raise InputError(f"{path.name} is no table of a store: {error}"[:200]) from error
