"""Write runs and graphs of any store to one portable file.

The file is a zip archive that depends on no database: ``divergraph-backup.json`` says the
format version, what is in it, and the length and SHA-256 of every other member; these are
the lines of :mod:`graphstore.transfer.portable`, a member for each graph and each run. Graphs that
several entries have are in it once. It also has what is said of the models of its runs.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO

from graphstore.contract import GraphStore
from graphstore.errors import InputError
from graphstore.model import ModelGraph
from graphstore.schema import codec
from graphstore.transfer.copying import StoreListing
from graphstore.transfer.memory import memory_of
from graphstore.transfer.portable import content_hash, graph_lines, run_lines

MANIFEST = "divergraph-backup.json"
NOTES, BASELINES = "notes", "baselines"
"""Its keys of what is said of the models of its runs."""
FORMAT = "divergraph-backup"
VERSION = 1
"""Raised when its form changes. Files of another version are refused."""


@dataclass(frozen=True, slots=True)
class BackupMember:
    """The length in bytes and the SHA-256 of a member, unpacked."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """A run or graph (``kind``) of a backup and its members.

    Of a graph, ``device`` is the graph, and ``created`` the time it was imported; of a run,
    ``run`` and ``golden`` are set as well.
    """

    kind: str
    name: str
    created: str
    device: str
    golden: str | None = None
    run: str | None = None


@dataclass
class _Writing:
    archive: zipfile.ZipFile
    members: dict[str, BackupMember] = field(default_factory=dict)
    graphs: dict[str, list[str]] = field(default_factory=dict)

    def add_graph(self, graph: ModelGraph) -> str:
        """Write a graph, unless it is there already; returns its member."""
        alike = self.graphs.setdefault(graph.id, [])
        if alike:
            content = content_hash(graph_lines(graph))
            for name in alike:
                if self.members[name].sha256 == content:
                    return name
        alike.append(self.add("graphs", graph_lines(graph)))
        return alike[-1]

    def add(self, folder: str, lines: Iterable[bytes]) -> str:
        """Write a member as its lines come; returns its name."""
        name = f"{folder}/{len(self.members) + 1:06}.jsonl"
        digest = hashlib.sha256()
        size = 0
        with self.archive.open(name, "w", force_zip64=True) as member:
            for line in lines:
                member.write(line)
                digest.update(line)
                size += len(line)
        self.members[name] = BackupMember(size, digest.hexdigest())
        return name


def write_backup(
    store: GraphStore, file: BinaryIO, names: Sequence[str] = ()
) -> Iterator[BackupEntry]:
    """Write the runs and graphs called *names*, or all, to *file*; each as it is written.

    One of them is in memory at a time. The file is whole when the iterator has ended.

    Raises:
        UnknownNameError: there is no run or graph of a name.
        InputError: the store is empty.
    """
    listing = StoreListing.of(store)
    if not listing.names():
        raise InputError("the store is empty: there is nothing to back up", where=store.url)
    for name in names:
        if name not in listing.runs and name not in listing.graphs:
            store.graph(name)  # says what is near
    entries = []
    models: set[str] = set()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        writing = _Writing(archive)
        for name in dict.fromkeys(names or listing.names()):
            if name in listing.graphs:
                created = listing.graphs[name].created
                entry = BackupEntry("graph", name, created, writing.add_graph(store.graph(name)))
            else:
                entry = _add_run(writing, store, name)
                models.add(listing.runs[name].golden)
            entries.append(entry)
            yield entry
        listed = {entry.name for entry in entries}
        notes, baselines = memory_of(store, models)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "entries": [_set_fields(entry) for entry in entries],
            "members": {name: asdict(member) for name, member in writing.members.items()},
            NOTES: codec.encoded(notes),
            BASELINES: codec.encoded(
                [baseline for baseline in baselines if baseline.run in listed]
            ),
        }
        archive.writestr(MANIFEST, json.dumps(manifest, indent=1) + "\n")


def _add_run(writing: _Writing, store: GraphStore, name: str) -> BackupEntry:
    data = store.run_data(name)
    device, golden = writing.add_graph(data.device), writing.add_graph(data.golden)
    run = writing.add("runs", run_lines(data))
    return BackupEntry("run", name, data.run.created, device, golden, run)


def _set_fields(entry: BackupEntry) -> dict[str, str]:
    return {name: value for name, value in asdict(entry).items() if value is not None}
