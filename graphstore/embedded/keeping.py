"""What a store of folders keeps: entries written, copied, renamed and deleted; and small texts."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Any

from graphstore.contract import GraphInfo, RunData
from graphstore.cypher.queries import Dialect
from graphstore.cypher.store import CypherStore, utc_now
from graphstore.cypher.targets import LoadedGraph
from graphstore.embedded.disk import DamagedStoreError
from graphstore.embedded.entry_copies import groups_of, write_copies
from graphstore.embedded.entry_facts import as_written, entry_info, entry_place, entry_run, what
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.embedded.memory_files import forget, remember, remembered
from graphstore.embedded.open_databases import OpenDatabases
from graphstore.embedded.outline_files import keep
from graphstore.embedded.repairs import readable_entries
from graphstore.embedded.run_tables import (
    RunTables,
    SavingTogether,
    SharedRuns,
    graph_keys,
    import_tables,
)
from graphstore.embedded.table_files import TABLES, write_table_files
from graphstore.embedded.views import Views
from graphstore.entry_names import check_name, check_new_name
from graphstore.errors import InputError, NameTakenError, StoreError
from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from graphstore.schema import codec
from graphstore.schema.graph_outline import outline_of
from graphstore.schema.stored_graph import StoredGraph, stored_graph


class KeepingStore(CypherStore):
    """The part of the embedded store that changes the folder."""

    dialect = Dialect.EMBEDDED

    def __init__(
        self, root: Path, *, read_only: bool = False, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(str(root), read_only=read_only, now=now)
        self._folder = StoreFolder(root)
        self._views = Views(self._folder, may_write=not read_only)
        self._databases = OpenDatabases(self._folder, self._views)
        with suppress(DamagedStoreError):  # whoever asks is told, and may repair it
            self._folder.check()

    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Keep a run under ``data.run.name``; visible in one step or not at all."""
        name = data.run.name
        self._prepare(name)
        self._check_free("runs", name, replace)
        with gc_paused():
            tables = RunTables.of(data)
            with self._folder.writing() as folder:
                write_table_files(folder / TABLES, tables)
                run = {"kind": "run", "run": codec.encoded(data.run)}
                self._folder.publish("runs", name, folder, run | tables.keys(), replace=replace)
            self._keep_arrays(name, tables.graphs)

    def save_runs(self, runs: Iterable[RunData], *, replace: bool = False) -> tuple[str, ...]:
        """Keep *runs*, those of the same graphs in the same tables; shown when all have come."""
        self._check_allowed()
        saved: list[str] = []

        def save(shared: SharedRuns) -> None:
            with self._folder.writing() as folder, gc_paused():
                shared.write(folder / TABLES)
                taken = self._folder.publish_together(folder, shared.manifests, replace=replace)
                saved.extend(taken)
            published = next((name for name in shared.manifests if name not in taken), None)
            if published is not None:
                self._keep_arrays(published, shared.graphs)

        saving = SavingTogether(save)
        for data in runs:
            check_new_name(data.run.name)
            saving.add(data)
        saving.finish()
        return tuple(saved)

    def take(
        self, source: KeepingStore, names: Mapping[str, str], *, replace: bool = False
    ) -> tuple[str, ...]:
        """Copy entries of another such store, by name there and here, table by table; the names
        that were taken meanwhile.

        Raises:
            DamagedStoreError: the tables of one are not what was written.
            NameTakenError: the name of one is in use, and not *replace*.
        """
        entries = []
        for name, new_name in names.items():
            self._prepare(new_name)
            entry = source._known(name)
            self._check_free(entry.kind, new_name, replace)
            entries.append(dataclasses.replace(entry, name=new_name))
        taken: list[str] = []
        for group in groups_of(entries):
            taken += write_copies(self._folder, source._views.pairs(group), replace=replace)
        return tuple(taken)

    def sums(self, name: str) -> object:
        """Equal for entries of two stores only if they are equal, under whatever name."""
        entry = self._known(name)
        record = entry_run(entry) if entry.kind == "runs" else entry_info(entry)
        tables = self._views.tables(entry)
        return dataclasses.replace(record, name=""), entry.manifest.get("golden"), tables.files

    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""
        self._check_allowed()
        entry = self._known(name)
        self._databases.forget(entry.folder)
        self._folder.remove(entry)
        self._views.drop_orphans()
        self._baseline_gone(name)

    def rename(self, name: str, new_name: str) -> None:
        """Give a run or imported graph another name, in one step."""
        self._prepare(new_name)
        entry = self._known(name)
        if name == new_name:
            return
        self._databases.forget(entry.folder)
        self._folder.rename(entry, new_name)
        self._baseline_renamed(name, new_name)

    def _remembered(self, kind: str) -> list[str]:
        return remembered(self._folder.root, kind) if self._folder.check() else []

    def _remember(self, kind: str, key: str, text: str) -> None:
        self._check_allowed()
        with self._folder.writing():  # makes the store, and looks whether there is room
            remember(self._folder.root, kind, key, text)

    def _forget(self, kind: str, key: str) -> bool:
        self._check_allowed()
        return self._folder.check() and forget(self._folder.root, kind, key)

    def check_writable(self) -> None:
        """Return if the store can be written, as far as can be told early."""
        self._check_allowed()
        self._folder.check_writable()

    def _entry(self, name: str) -> Entry | None:
        if not self._folder.check():
            return None
        try:
            check_name(name)
        except InputError:
            return None  # nothing was ever saved under what is no name
        return self._folder.entry("runs", name) or self._folder.entry("graphs", name)

    def _known(self, name: str) -> Entry:
        entry = self._entry(name)
        if entry is None:
            raise self._unknown_target("run or graph", name)
        return entry

    def _prepare(self, name: str) -> None:
        self._check_allowed()
        check_new_name(name)

    def _check_free(self, kind: str, name: str, replace: bool) -> None:
        entry = self._entry(name)
        if entry is not None and (entry.kind != kind or not replace):
            raise NameTakenError.by(what(entry), name, or_replace=entry.kind == kind)

    def _keep_arrays(self, name: str, graphs: Sequence[StoredGraph]) -> None:
        """Have the next process find what it loads of large *graphs*, those of the new entry."""
        entry = self._entry(name)
        if entry is None:
            return  # deleted since a moment
        for graph in graphs:
            loaded = partial(_loaded, graph)
            keep(self._folder.root, entry.home, graph.content, len(graph.graph.ops), loaded)

    def _numbered(self, graph: ModelGraph) -> StoredGraph:
        with gc_paused():
            return stored_graph(graph, {})

    def _same_graph(self, name: str, stored: StoredGraph) -> GraphInfo | None:
        entry = self._entry(name)
        is_same = entry is not None and entry.kind == "graphs" and _holds(entry, stored)
        return entry_info(entry) if entry is not None and is_same else None

    def _write_graph(self, stored: StoredGraph, info: GraphInfo, *, replace: bool) -> None:
        self._check_free("graphs", info.name, replace)
        manifest: dict[str, Any] = {
            "kind": "graph",
            "info": asdict(info),
            "device": graph_keys(stored),
        }
        with self._folder.writing() as folder, gc_paused():
            # The same graph under two names takes its place on the disk once: files are never
            # changed, so they can be shared.
            twin = self._linked_twin(stored, folder / TABLES)
            if twin is not None:
                manifest["written"] = asdict(as_written(twin))
            else:
                tables = import_tables(stored, info.name, info.created)
                write_table_files(folder / TABLES, tables)
            self._folder.publish("graphs", info.name, folder, manifest, replace=replace)
        self._keep_arrays(info.name, [stored])

    def _linked_twin(self, stored: StoredGraph, folder: Path) -> Entry | None:
        """A graph of the same content, whose tables are those in *folder* now, too."""
        for entry in readable_entries(self._folder):
            # damaged, without links in this file system, or just gone: not this one
            with suppress(StoreError, OSError):
                if entry.kind == "graphs" and _holds(entry, stored):
                    _link_all(entry, folder)
                    return entry
        return None


def _loaded(stored: StoredGraph) -> LoadedGraph:
    return LoadedGraph.of(outline_of(stored))


def _link_all(entry: Entry, folder: Path) -> None:
    """Let the files in *folder* be the tables of *entry*; or none."""
    tables = entry.tables
    if tables is None:
        raise FileNotFoundError(ENOENT, "no tables", str(entry.folder))
    folder.mkdir()
    try:
        for name in tables.files:
            os.link(tables.folder / name, folder / name)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _holds(entry: Entry, stored: StoredGraph) -> bool:
    return entry_place(entry).content == stored.content and not entry.damaged()
