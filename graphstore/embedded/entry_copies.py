"""Entries written to a store from the tables that they have elsewhere: in another store, or made of
the database of an earlier version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphstore.embedded.disk import os_errors
from graphstore.embedded.entry_facts import Written, entry_info, entry_run, is_as_written
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.merged_tables import MergedTables
from graphstore.embedded.run_tables import MOST_ROWS
from graphstore.embedded.table_files import TABLE_NAMES, TABLES, TableFiles, write_table_files
from graphstore.schema.codec import plain_text
from graphstore.schema.stored_graph import first_id


def groups_of(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """*entries* in the order in which they come, runs of the same graphs together as far as tables
    take them."""
    group: list[Entry] = []
    for entry in entries:
        if group and not _fits(entry, group):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _fits(entry: Entry, group: Sequence[Entry]) -> bool:
    firsts = {first_id(plain_text(one.manifest["run"]["name"])) for one in [*group, entry]}
    tensors = sum(entry_run(one).counts.tensors for one in [*group, entry])
    return (
        entry.kind == group[0].kind == "runs"
        and _graphs(entry) == _graphs(group[0])
        and len(firsts) > len(group)
        and tensors <= MOST_ROWS
    )


def _graphs(entry: Entry) -> tuple[object, object]:
    return entry.manifest["golden"], entry.manifest["device"]


def write_copies(
    folder: StoreFolder,
    entries: Sequence[tuple[Entry, TableFiles]],
    *,
    replace: bool = False,
    stamps: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[str, ...]:
    """Write *entries*, one or runs of the same graphs, to a store under their names of now; the
    names that were taken, as of :meth:`StoreFolder.publish_together`."""
    first, tables = entries[0]
    with folder.writing() as written:
        if len(entries) == 1 and first.shared is None and is_as_written(first):
            _copy_files(tables, written / TABLES)
        else:
            write_table_files(written / TABLES, MergedTables.of(entries, same_keys=True))
        manifests = {entry.name: _manifest(entry) for entry, _ in entries}
        if first.kind == "runs":
            return folder.publish_together(written, manifests, replace=replace, stamps=stamps)
        folder.publish(
            first.kind, first.name, written, manifests[first.name], replace=replace, stamps=stamps
        )
        return ()


def _copy_files(tables: TableFiles, folder: Path) -> None:
    with os_errors("write", folder):
        folder.mkdir()
        for name in TABLE_NAMES:
            path = tables.path(name)  # it is what was written
            if path is not None:
                shutil.copyfile(path, folder / path.name)


def _manifest(entry: Entry) -> dict[str, Any]:
    """What the manifest says of the entry itself; the tables have its name of now."""
    facts = {"kind", "run", "info", "golden", "device"} & entry.manifest.keys()
    record = entry_run(entry) if entry.kind == "runs" else entry_info(entry)
    written = asdict(Written(entry.name, record.created))
    return {**{key: entry.manifest[key] for key in sorted(facts)}, "written": written}
