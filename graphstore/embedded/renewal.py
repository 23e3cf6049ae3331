"""Entries written anew: by an earlier version without tables, or with a file that is lost since.

Each is replaced in one step, runs kept together one after the other: who is stopped goes on where
it was. What has neither its database nor its tables is damaged, and left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.disk import DamagedStoreError
from graphstore.embedded.entry_facts import Written, entry_info, entry_run, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.merged_tables import MergedTables
from graphstore.embedded.scratch import DATABASE
from graphstore.embedded.table_files import TABLES
from graphstore.embedded.table_writing import write_tables
from graphstore.errors import NameTakenError, StoreError, UnknownNameError


def incomplete(entries: Sequence[Entry]) -> Iterator[tuple[list[Entry], str]]:
    """Those of *entries* that :func:`renew` writes anew, the runs of one database together, and
    why."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.shared or entry.folder, []).append(entry)
    for group in groups.values():
        with suppress(StoreError):  # damaged_entries tells of it
            if reason := _reason(group[0]):
                yield group, reason


def _reason(entry: Entry) -> str:
    tables = entry.tables
    if tables is None or entry.is_older:
        return "an earlier version wrote it without tables"
    if damaged := next(tables.damaged(), None):
        return f"{damaged.name} was missing, cut or changed" if entry.is_unchanged() else ""
    return "" if entry.is_unchanged() else "its database was missing, cut or changed"


def renew(
    folder: StoreFolder, entries: Sequence[Entry], open_: Callable[[Entry], ReadDatabase]
) -> Iterator[str]:
    """Write those of *entries* anew that are :func:`incomplete`; a sentence for each."""
    for group, reason in incomplete(entries):
        with suppress(DamagedStoreError, NameTakenError, UnknownNameError):  # or changed meanwhile
            _write(folder, group, open_(group[0]))
            for entry in group:
                yield f"wrote the {what(entry)} {entry.name!r} anew: {reason}"


def _write(folder: StoreFolder, group: Sequence[Entry], database: ReadDatabase) -> None:
    tables = MergedTables.of([(entry, database) for entry in group], same_keys=True)
    stamps = {entry.name: entry.stamp for entry in group}
    with folder.writing() as written:
        write_tables(written / DATABASE, tables.tables(), written / TABLES)
        manifests = {entry.name: _manifest(entry) for entry in group}
        if group[0].shared is not None:
            folder.publish_together(written, manifests, replace=True, stamps=stamps)
            return
        (entry,) = group
        folder.publish(
            entry.kind, entry.name, written, manifests[entry.name], replace=True, stamps=stamps
        )


def _manifest(entry: Entry) -> dict[str, Any]:
    """What the manifest says of the entry itself; the database has its name of now."""
    facts = {"kind", "run", "info", "golden", "device"} & entry.manifest.keys()
    record = entry_run(entry) if entry.kind == "runs" else entry_info(entry)
    written = asdict(Written(entry.name, record.created))
    return {**{key: entry.manifest[key] for key in sorted(facts)}, "written": written}
