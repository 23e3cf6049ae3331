"""Entries written anew: by an earlier version as a database, or with tables that are lost since.

Each is replaced in one step, runs kept together one after the other: who is stopped goes on where
it was. What has neither its tables nor a view of them is damaged, and left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphstore.embedded.database import ReadDatabase
from graphstore.embedded.disk import DamagedStoreError
from graphstore.embedded.engine import check_form
from graphstore.embedded.entry_facts import Written, entry_info, entry_run, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.merged_tables import MergedTables
from graphstore.embedded.older_databases import OlderTables
from graphstore.embedded.table_files import TABLES, EntryTables, write_table_files
from graphstore.embedded.views import Views, opened_tables
from graphstore.errors import NameTakenError, StoreError, UnknownNameError


def incomplete(entries: Sequence[Entry], views: Views) -> Iterator[tuple[list[Entry], str]]:
    """Those of *entries* that :func:`renew` writes anew, those that share their tables together,
    and why."""
    groups: dict[Path, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.home, []).append(entry)
    for group in groups.values():
        with suppress(StoreError):  # damaged_entries or written_by_others tells of it
            lost = group[0].damaged()
            if group[0].tables is None and not lost:
                check_form(group[0].database, group[0].manifest.get("engine"))
                yield group, "an earlier version wrote it without tables"
            elif lost and views.existing(group[0]) is not None:
                yield group, f"{lost[0].name} was missing, cut or changed"


def renew(folder: StoreFolder, entries: Sequence[Entry], views: Views) -> Iterator[str]:
    """Write those of *entries* anew that are :func:`incomplete`; a sentence for each."""
    for group, reason in incomplete(entries, views):
        with suppress(DamagedStoreError, NameTakenError, UnknownNameError):  # or changed meanwhile
            stamps = {entry.name: entry.stamp for entry in group}
            with _tables(group, views) as tables:
                write_anew(folder, tables, replace=True, stamps=stamps)
            for entry in group:
                yield f"wrote the {what(entry)} {entry.name!r} anew: {reason}"


@contextmanager
def _tables(group: Sequence[Entry], views: Views) -> Iterator[list[tuple[Entry, EntryTables]]]:
    """The tables of a *group*, from the view of them where they are lost."""
    view = views.existing(group[0]) if group[0].damaged() else None
    if view is None:
        with opened_tables(group) as tables:
            yield tables
        return
    database = ReadDatabase(view.database)
    try:
        of_view = OlderTables(database, is_older=False)
        yield [(entry, of_view) for entry in group]
    finally:
        database.close()


def write_anew(
    folder: StoreFolder,
    entries: Sequence[tuple[Entry, EntryTables]],
    *,
    replace: bool = False,
    stamps: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[str, ...]:
    """Write *entries*, one or those that share their tables, to a store under their names of now;
    the names that were taken, as of :meth:`StoreFolder.publish_together`."""
    first, _ = entries[0]
    with folder.writing() as written:
        write_table_files(written / TABLES, MergedTables.of(entries, same_keys=True))
        manifests = {entry.name: _manifest(entry) for entry, _ in entries}
        if first.kind == "runs":
            return folder.publish_together(written, manifests, replace=replace, stamps=stamps)
        folder.publish(
            first.kind, first.name, written, manifests[first.name], replace=replace, stamps=stamps
        )
        return ()


def _manifest(entry: Entry) -> dict[str, Any]:
    """What the manifest says of the entry itself; the tables have its name of now."""
    facts = {"kind", "run", "info", "golden", "device"} & entry.manifest.keys()
    record = entry_run(entry) if entry.kind == "runs" else entry_info(entry)
    written = asdict(Written(entry.name, record.created))
    return {**{key: entry.manifest[key] for key in sorted(facts)}, "written": written}
