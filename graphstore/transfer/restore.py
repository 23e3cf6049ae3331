"""Read a backup file and put what is in it into a store.

Nothing of the file is trusted: what it says of itself is checked before anything is
written to the store, no path of it is ever used as one, and no more is unpacked than its
list of contents says and its own length makes likely.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import IO, Any, TypeVar

from graphstore.contract import GraphStore, RunData
from graphstore.cypher.memory import check_memory
from graphstore.entry_names import check_name
from graphstore.errors import InputError, NameTakenError, UnknownNameError
from graphstore.model import Baseline, ModelGraph, Note
from graphstore.schema import codec
from graphstore.transfer.backup import (
    BASELINES,
    FORMAT,
    MANIFEST,
    NOTES,
    VERSION,
    BackupEntry,
    BackupMember,
)
from graphstore.transfer.copying import (
    CopiedEntry,
    Done,
    StoreListing,
    keep_new_runs,
    same_graph,
)
from graphstore.transfer.memory import keep_memory
from graphstore.transfer.portable import (
    content_hash,
    graph_from_lines,
    graph_lines,
    run_from_lines,
    run_lines,
)
from graphstore.zip_damage import ZIP_DAMAGE

_Said = TypeVar("_Said", Note, Baseline)
_MEMBER = re.compile(r"(?:graphs|runs)/\d{6,9}\.jsonl")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAX_MANIFEST = 2**26
_MAX_LINE = 2**28
_MAX_RATIO = 250
"""Unpacked bytes for each byte of the file; real runs need up to about 80."""
_SLACK = 2**24


class Backup:
    """An open backup file; see :func:`open_backup`."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, size: int) -> None:
        self._path = path
        self._archive = archive
        manifest = self._manifest(size)
        self._members = _members(manifest, path)
        self.entries = _entries(manifest, self._members, path)
        """What is in it, in the order it was written."""
        self.notes = _records_in(manifest, NOTES, Note, path)
        self.baselines = _records_in(manifest, BASELINES, Baseline, path)
        self._check_sizes(size)

    def chosen(self, names: Sequence[str]) -> list[BackupEntry]:
        """The entries called *names*, or all.

        Raises:
            UnknownNameError: there is none of a name.
        """
        entries = {entry.name: entry for entry in self.entries}
        for name in names:
            if name not in entries:
                listed = ", ".join(entries) if len(entries) < 10 else f"{len(entries)} others"
                raise UnknownNameError("run or graph in the backup", name, hint=f"it has {listed}")
        return [entries[name] for name in dict.fromkeys(names)] if names else list(self.entries)

    def check(self, entries: Sequence[BackupEntry]) -> None:
        """Read the members of *entries* once.

        Raises:
            InputError: one is not what the list of contents says.
        """
        for name in dict.fromkeys(name for entry in entries for name in _names(entry)):
            for _ in self.lines(name):
                pass

    def graph(self, member: str) -> ModelGraph:
        """A graph.

        Raises:
            InputError: it cannot be read.
        """
        with self._placing(member):
            graph = graph_from_lines(self.lines(member))
        if len({op.id for op in graph.ops}) < len(graph.ops):
            raise self.wrong("two ops have one id", member)
        return graph

    def run(
        self, entry: BackupEntry, graphs: tuple[ModelGraph, ModelGraph] | None = None
    ) -> RunData:
        """A run with its graphs, which are read if they are not given, golden first.

        Raises:
            InputError: it cannot be read.
        """
        member, golden = str(entry.run), str(entry.golden)
        graphs = graphs or (self.graph(golden), self.graph(entry.device))
        with self._placing(member):
            data = run_from_lines(self.lines(member), *graphs)
        if data.run.name != entry.name:
            raise self.wrong(f"it is the run {data.run.name!r}", member)
        return data

    def sha256(self, member: str) -> str:
        """The hash of a member."""
        return self._members[member].sha256

    def lines(self, member: str) -> Iterator[bytes]:
        """The lines of a member; its length and hash are right if they end without error."""
        digest = hashlib.sha256()
        with self._reading(member) as file:
            while line := file.readline(_MAX_LINE):
                if len(line) == _MAX_LINE:
                    raise self.wrong("a line is too long", member)
                digest.update(line)
                yield line
        if digest.hexdigest() != self._members[member].sha256:
            raise self.wrong("it was changed or damaged: its SHA-256 is another", member)

    def wrong(self, message: str, member: str = "") -> InputError:
        """The error to raise about this file."""
        return _wrong(self._path, f"{member}: {message}" if member else message)

    @contextmanager
    def _placing(self, member: str) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            raise (error if error.where else self.wrong(error.what, member)) from error

    def _manifest(self, size: int) -> dict[str, Any]:
        if MANIFEST not in self._archive.namelist():
            raise _wrong(self._path, f"it is a zip file without {MANIFEST}")
        if self._archive.getinfo(MANIFEST).file_size > min(_MAX_MANIFEST, _bound(size)):
            raise _wrong(self._path, f"{MANIFEST} is too long")
        with self._reading(MANIFEST) as file:
            text = file.read(_MAX_MANIFEST)
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _wrong(self._path, f"{MANIFEST} is not JSON") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise _wrong(self._path, f"{MANIFEST} does not say it is a backup")
        version = manifest.get("version")
        if version != VERSION:
            raise _wrong(
                self._path,
                f"it has format version {version!r}, this program reads {VERSION} only",
                hint="use the divergraph that wrote it",
            )
        return manifest

    def _check_sizes(self, size: int) -> None:
        """What is in the archive is what is listed, and could be of this length."""
        infos = self._archive.infolist()
        names = [info.filename for info in infos]
        if len(set(names)) < len(names):
            raise self.wrong("it has two members of one name")
        for name in sorted(set(names) ^ {*self._members, MANIFEST}):
            what = "is missing" if name in self._members else "is not part of a backup"
            raise self.wrong(f"{name[:80]!r} {what}")
        for info in infos:
            member = self._members.get(info.filename)
            if member is not None and member.bytes != info.file_size:
                raise self.wrong("its length is not the one listed", info.filename)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self.wrong("it is packed in an unknown way", info.filename)
        packed = sum(info.compress_size for info in infos)
        if packed > size or sum(info.file_size for info in infos) > _bound(size):
            raise self.wrong("it would unpack to far more than a backup of its length can hold")

    @contextmanager
    def _reading(self, member: str) -> Iterator[IO[bytes]]:
        try:
            with self._archive.open(member) as file:
                yield file
        except ZIP_DAMAGE as error:
            raise _wrong(self._path, f"{member} cannot be unpacked: {error}") from error


@contextmanager
def open_backup(path: Path) -> Iterator[Backup]:
    """The backup in the file *path*, its list of contents read and checked.

    Raises:
        InputError: there is no such file, or it is no backup this program knows.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            try:
                archive = zipfile.ZipFile(file)
            except (*ZIP_DAMAGE, ValueError) as error:
                raise _wrong(path, f"it is not a whole zip file: {error}") from error
            with archive:
                yield Backup(path, archive, size)
    except OSError as error:
        message = error.strerror or str(error)
        raise InputError(f"cannot be read: {message}", where=str(path)) from error


def restore(
    backup: Backup, store: GraphStore, names: Sequence[str] = (), *, replace_it: bool = False
) -> Iterator[CopiedEntry]:
    """Put the entries called *names*, or all, into *store*; each as it is done.

    Each is visible in one step or not at all; what is there with the same content is left,
    so a restore that was stopped can be repeated.

    Raises:
        InputError: the file is damaged; then nothing was written.
        NameTakenError: names are in use for something else, and not *replace_it*; then
            nothing was written.
    """
    entries = backup.chosen(names)
    backup.check(entries)
    there = StoreListing.of(store)
    unchanged = {entry.name for entry in entries if _is_there(backup, store, there, entry)}
    _check_free(there, [entry for entry in entries if entry.name not in unchanged], replace_it)
    names_there = set(there.names())

    def graphs(entry: BackupEntry) -> tuple[str, ...]:
        is_new_run = entry.run is not None and entry.name not in names_there
        return (entry.device, str(entry.golden)) if is_new_run else (entry.name,)

    for _, group in groupby(entries, graphs):
        alike = list(group)
        if len(alike) > 1:
            try:
                yield from keep_new_runs(store, _runs(backup, alike))
            except ValueError as error:  # what one says of ops does not fit its graph
                raise backup.wrong(str(error)) from error
            continue
        (entry,) = alike
        if entry.name in unchanged:
            yield CopiedEntry(entry.kind, entry.name, Done.UNCHANGED)
            continue
        _save(backup, store, entry, replace_it=replace_it)
        done = Done.REPLACED if entry.name in names_there else Done.ADDED
        yield CopiedEntry(entry.kind, entry.name, done)
    runs = {entry.name: entry.name for entry in entries if entry.run is not None}
    if backup.notes or backup.baselines:
        keep_memory(store, backup.notes, backup.baselines, runs)


def _runs(backup: Backup, entries: Sequence[BackupEntry]) -> Iterator[RunData]:
    """The runs of *entries*, which have the same graphs."""
    first = backup.run(entries[0])
    yield first
    for entry in entries[1:]:
        yield backup.run(entry, (first.golden, first.device))


def _save(backup: Backup, store: GraphStore, entry: BackupEntry, *, replace_it: bool) -> None:
    if entry.run is None:
        graph = backup.graph(entry.device)
        store.save_graph(graph, entry.name, replace=replace_it, created=entry.created)
        return
    data = backup.run(entry)
    try:
        store.save_run(data, replace=replace_it)
    except ValueError as error:  # what it says of ops does not fit its graph
        raise backup.wrong(str(error), entry.run) from error


def _is_there(backup: Backup, store: GraphStore, there: StoreListing, entry: BackupEntry) -> bool:
    if entry.kind == "graph":
        return entry.name in there.graphs and same_graph(
            store, entry.name, backup.sha256(entry.device)
        )
    if entry.name not in there.runs or entry.run is None or entry.golden is None:
        return False
    if there.runs[entry.name].created != entry.created:
        return False
    data = store.run_data(entry.name)
    return (
        content_hash(run_lines(data)) == backup.sha256(entry.run)
        and content_hash(graph_lines(data.device)) == backup.sha256(entry.device)
        and content_hash(graph_lines(data.golden)) == backup.sha256(entry.golden)
    )


def _check_free(there: StoreListing, entries: Sequence[BackupEntry], replace_it: bool) -> None:
    for entry in entries:
        others = there.runs if entry.kind == "graph" else there.graphs
        if entry.name in others:
            what = "run" if entry.kind == "graph" else "graph"
            raise NameTakenError(
                f"there is a {what} named {entry.name!r} already, and a {entry.kind} of that "
                "name in the backup",
                hint="rename or delete it first",
            )
    names_there = [repr(entry.name) for entry in entries if entry.name in there.names()]
    if names_there and not replace_it:
        listed = ", ".join(names_there[:5]) + (
            f" and {len(names_there) - 5} more" if len(names_there) > 5 else ""
        )
        raise NameTakenError(
            f"the store has something else named {listed}; nothing was restored",
            hint="use --replace to write over it, or name what to restore",
        )


def _names(entry: BackupEntry) -> list[str]:
    return [name for name in (entry.device, entry.golden, entry.run) if name is not None]


def _members(manifest: Mapping[str, Any], path: Path) -> dict[str, BackupMember]:
    listed = manifest.get("members")
    if not isinstance(listed, dict):
        raise _wrong(path, f"{MANIFEST} lists no members")
    members = {}
    for name, facts in listed.items():
        if not _MEMBER.fullmatch(name):
            raise _wrong(path, f"{name[:80]!r} is not part of a backup")
        size = facts.get("bytes") if isinstance(facts, dict) else None
        sha256 = facts.get("sha256") if isinstance(facts, dict) else None
        if type(size) is not int or size < 0 or not isinstance(sha256, str):
            raise _wrong(path, f"{MANIFEST} does not say what {name} should be")
        if not _SHA256.fullmatch(sha256):
            raise _wrong(path, f"{MANIFEST} has no SHA-256 of {name}")
        members[name] = BackupMember(size, sha256)
    return members


def _records_in(
    manifest: Mapping[str, Any], key: str, kind: type[_Said], path: Path
) -> list[_Said]:
    listed = manifest.get(key, [])
    try:
        records = [codec.decoded(kind, entry) for entry in listed]
        for record in records:
            check_memory(record)
    except (TypeError, ValueError, LookupError, AttributeError, InputError) as error:
        raise _wrong(path, f"{MANIFEST} has {key} that are none: {error}") from error
    return records


def _entries(
    manifest: Mapping[str, Any], members: Mapping[str, BackupMember], path: Path
) -> list[BackupEntry]:
    listed = manifest.get("entries")
    if not isinstance(listed, list):
        raise _wrong(path, f"{MANIFEST} lists no entries")
    entries = [_entry(value, members, path) for value in listed]
    if len({entry.name for entry in entries}) < len(entries):
        raise _wrong(path, "two entries have one name")
    return entries


def _entry(value: object, members: Mapping[str, BackupMember], path: Path) -> BackupEntry:
    wrong = _wrong(path, f"{MANIFEST} has an entry that is none: {str(value)[:80]}")
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise wrong
    try:
        entry = BackupEntry(**value)
    except TypeError as error:
        raise wrong from error
    is_run = entry.golden is not None and entry.run is not None
    if entry.kind != ("run" if is_run else "graph") or not set(_names(entry)) <= set(members):
        raise wrong
    try:
        check_name(entry.name)
    except InputError as error:
        raise _wrong(path, f"an entry cannot be named so: {error.what}") from error
    return entry


def _bound(size: int) -> int:
    return size * _MAX_RATIO + _SLACK


def _wrong(path: Path, message: str, *, hint: str = "") -> InputError:
    return InputError(message, where=str(path), hint=hint or "give a file that `backup` wrote")
