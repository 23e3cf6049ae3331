"""The embedded store: :class:`EmbeddedStore`."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphstore import codec
from graphstore.collector import paused_collector
from graphstore.contract import GraphInfo, QueryParameters, QueryResult, RunData
from graphstore.cypher_store import CypherStore, Place
from graphstore.embedded.database import ReadDatabase, write_database
from graphstore.embedded.folders import Entry, StoreFolder
from graphstore.entry_names import check_name
from graphstore.errors import InputError, NameTakenError, StoreError
from graphstore.model import ModelGraph, Run, Side
from graphstore.queries import Dialect, NamedQuery
from graphstore.read_only import check_read_only
from graphstore.records import (
    Records,
    StoredGraph,
    graph_info,
    graph_records,
    import_records,
    plain_text,
    run_records,
    stored_graph,
)

_DATABASE = "graph.lbug"


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


class EmbeddedStore(CypherStore):
    """A store in the folder *root*, made at the first write.

    A run or graph is one immutable database file; any number of processes may read and
    write the store at once. With *read_only*, writing raises StoreError.
    """

    dialect = Dialect.EMBEDDED

    def __init__(
        self, root: Path, *, read_only: bool = False, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__()
        self.url = str(root)
        self._folder = StoreFolder(root)
        self._read_only = read_only
        self._now = now
        self._lock = threading.RLock()
        self._open: dict[Path, tuple[tuple[int, int], ReadDatabase]] = {}
        self._replaced: list[ReadDatabase] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._folder.check()

    def save_graph(
        self,
        graph: ModelGraph,
        name: str,
        *,
        replace: bool = False,
        created: str | None = None,
    ) -> GraphInfo:
        """Keep *graph* under *name*; visible in one step or not at all."""
        self._check_free("graphs", name, replace)
        created = created or self._now().isoformat(timespec="microseconds")
        info = graph_info(graph, name, created)
        stored = stored_graph(graph, {})
        records = graph_records(stored)
        records.add(import_records(stored, name, info.created))
        manifest = {"kind": "graph", "info": asdict(info), "device": _keys(stored)}
        self._write("graphs", name, records, manifest, replace)
        return info

    def save_run(self, data: RunData, *, replace: bool = False) -> None:
        """Keep a run under ``data.run.name``; visible in one step or not at all."""
        name = data.run.name
        self._check_free("runs", name, replace)
        with paused_collector():
            records, golden, device = _run_with_graphs(data, {})
        manifest = {
            "kind": "run",
            "run": json.loads(codec.run_text(data.run)),
            "golden": _keys(golden),
            "device": _keys(device),
        }
        self._write("runs", name, records, manifest, replace)

    def runs(self) -> list[Run]:
        """All runs, oldest first."""
        found = [_manifest_run(entry) for entry in self._folder.entries("runs")]
        return sorted(found, key=lambda run: (run.created, run.name))

    def graphs(self) -> list[GraphInfo]:
        """All imported graphs (not those inside runs), oldest first."""
        found = [_manifest_info(entry) for entry in self._folder.entries("graphs")]
        return sorted(found, key=lambda info: (info.created, info.name))

    def run(self, name: str) -> Run:
        """One run."""
        entry = self._entry(name)
        if entry is None or entry.kind != "runs":
            raise self._unknown_target("run", name)
        return _manifest_run(entry)

    def query(
        self, cypher: str, parameters: QueryParameters, target: str | None = None
    ) -> QueryResult:
        """The answer of the user's own Cypher, read-only; on one target or all.

        With *target*, its keys are the parameters ``$run``, ``$graph``, ``$golden`` and
        ``$device``.
        """
        check_read_only(cypher, self.dialect)
        values = dict(parameters.values)
        if target is not None:
            entries = [self._known(target)]
            values = {**self._target_keys(self._place(target), cypher), **values}
        else:
            entries = self._folder.entries("runs") + self._folder.entries("graphs")
        if not entries:
            raise InputError(
                "there is nothing to query yet",
                where=self.url,
                hint="make a run with compare, or import a graph",
            )
        database = self._database(entries[0]) if len(entries) == 1 else self._merged(entries)
        return database.ask(cypher, values, limit=parameters.limit, timeout=parameters.timeout)

    def delete(self, name: str) -> None:
        """Remove a run or imported graph."""
        self._check_writable()
        entry = self._known(name)
        self._forget(entry.folder)
        self._folder.remove(entry)

    def close(self) -> None:
        """Release all files; the store is not used afterwards."""
        with self._lock:
            for database in [*self._replaced, *(known[1] for known in self._open.values())]:
                database.close()
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None
            self._replaced.clear()
            self._open.clear()

    def _names(self) -> list[str]:
        return [entry.name for kind in ("runs", "graphs") for entry in self._folder.entries(kind)]

    def _place(self, target: str) -> Place:
        entry = self._known(target)
        try:
            device = entry.manifest["device"]
            if entry.kind == "graphs":
                return Place(target, device["key"], device["content"])
            golden = entry.manifest["golden"]
            return Place(
                target,
                device["key"],
                device["content"],
                plain_text(target),
                golden["key"],
                golden["content"],
            )
        except (KeyError, TypeError) as error:
            raise _damaged(entry) from error

    def _ask(self, place: Place, query: NamedQuery, params: Mapping[str, object]) -> QueryResult:
        return self._database(self._known(place.name)).ask(query.text, params)

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

    def _check_writable(self) -> None:
        if self._read_only:
            raise StoreError("the store is opened for reading only", where=self.url)

    def _check_free(self, kind: str, name: str, replace: bool) -> None:
        self._check_writable()
        check_name(name)
        entry = self._entry(name)
        if entry is None:
            return
        what = "run" if entry.kind == "runs" else "graph"
        if entry.kind != kind:
            raise NameTakenError(
                f"there is a {what} named {name!r} already", hint="use another name"
            )
        if not replace:
            raise NameTakenError(
                f"there is a {what} named {name!r} already",
                hint="use --replace to write over it, or another name",
            )

    def _write(
        self, kind: str, name: str, records: Records, manifest: dict[str, Any], replace: bool
    ) -> None:
        with self._folder.writing() as folder, paused_collector():
            write_database(folder / _DATABASE, records)
            self._folder.publish(kind, name, folder, manifest, replace=replace)

    def _database(self, entry: Entry) -> ReadDatabase:
        """The open database of an entry; opened anew if the entry was replaced."""
        with self._lock:
            known = self._open.get(entry.folder)
            if known is not None and known[0] == entry.stamp:
                return known[1]
            self._forget(entry.folder)
            if not entry.is_whole():
                # perhaps it was replaced since its manifest was read
                fresh = self._folder.entry(entry.kind, entry.name)
                if fresh is None or fresh.stamp == entry.stamp:
                    raise _damaged(entry)
                return self._database(fresh)
            database = ReadDatabase(entry.database)
            self._open[entry.folder] = (entry.stamp, database)
            return database

    def _forget(self, folder: Path) -> None:
        with self._lock:
            known = self._open.pop(folder, None)
            if known is not None:
                self._replaced.append(known[1])  # another thread may be reading it

    def _merged(self, entries: list[Entry]) -> ReadDatabase:
        """A scratch database of several entries, kept until one of them changes.

        It lies in the store, or in a folder of this process if that cannot be written.
        """
        stamps = sorted((str(entry.folder), *entry.stamp) for entry in entries)
        digest = hashlib.sha256(repr(stamps).encode()).hexdigest()[:24]
        with self._lock:
            folder = self._folder if self._may_write() else self._own_scratch()
            scratch = folder.entry("scratch", digest)
            if scratch is None:
                records = self._merged_records(entries)
                folder.drop_scratch()
                with folder.writing() as written:
                    write_database(written / _DATABASE, records)
                    folder.publish("scratch", digest, written, {"kind": "scratch"})
                scratch = folder.entry("scratch", digest)
            if scratch is None:
                raise StoreError("the merged database vanished", where=self.url, retryable=True)
            return self._database(scratch)

    def _may_write(self) -> bool:
        return not self._read_only and os.access(self._folder.root, os.W_OK)

    def _own_scratch(self) -> StoreFolder:
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="divergraph-")
        return StoreFolder(Path(self._temporary.name))

    def _merged_records(self, entries: list[Entry]) -> Records:
        taken: dict[str, str] = {}
        merged = Records()
        for entry in entries:
            if entry.kind == "runs":
                merged.add(_run_with_graphs(self._run_data(entry.name), taken)[0])
            else:
                stored = stored_graph(self.graph(entry.name), taken)
                merged.add(_fresh_graph(stored, taken))
                merged.add(import_records(stored, entry.name, entry.manifest["info"]["created"]))
        models = merged.nodes["Model"]
        merged.nodes["Model"] = list(dict.fromkeys(models))
        return merged

    def _run_data(self, name: str) -> RunData:
        return RunData(
            run=self.run(name),
            golden=self.graph(name, Side.GOLDEN),
            device=self.graph(name),
            links=tuple(self.links(name)),
            comparisons=tuple(self.comparisons(name)),
            states=self.states(name),
            origins=tuple(self.origins(name)),
        )


def _run_with_graphs(
    data: RunData, taken: dict[str, str]
) -> tuple[Records, StoredGraph, StoredGraph]:
    """The rows of a run and of those of its graphs that *taken* has not; added there."""
    golden = stored_graph(data.golden, taken)
    records = _fresh_graph(golden, taken)
    device = stored_graph(data.device, taken)
    records.add(_fresh_graph(device, taken))
    records.nodes["Model"] = list(dict.fromkeys(records.nodes.get("Model", [])))
    records.add(run_records(data, golden, device, plain_text(data.run.name)))
    return records, golden, device


def _fresh_graph(stored: StoredGraph, taken: dict[str, str]) -> Records:
    if stored.key in taken:
        return Records()
    taken[stored.key] = stored.content
    return graph_records(stored)


def _keys(stored: StoredGraph) -> dict[str, str]:
    return {"key": stored.key, "content": stored.content}


def _manifest_run(entry: Entry) -> Run:
    try:
        return codec.run_value(json.dumps(entry.manifest["run"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(entry) from error


def _manifest_info(entry: Entry) -> GraphInfo:
    try:
        return GraphInfo(**entry.manifest["info"])
    except (KeyError, TypeError) as error:
        raise _damaged(entry) from error


def _damaged(entry: Entry) -> StoreError:
    return StoreError(
        f"the {'run' if entry.kind == 'runs' else 'graph'} {entry.name!r} is damaged",
        where=str(entry.folder / "manifest.json"),
        hint="delete its folder and make it again",
    )
