"""What in a store's folder is left over, what is damaged, and what is written anew.

What an earlier version wrote as a database is written anew in one step, runs kept together one
after the other: who is stopped goes on where it was. What has not its tables is damaged, and left
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graphstore.embedded.disk import (
    DamagedStoreError,
    abandoned_drafts,
    alone,
    forget_read,
    os_errors,
    remove_draft,
    sync,
)
from graphstore.embedded.engine import check_form, engine_name
from graphstore.embedded.entry_copies import write_copies
from graphstore.embedded.entry_facts import as_written, entry_place, is_as_written, what
from graphstore.embedded.folders import KINDS, STORE, Entry, StoreFolder
from graphstore.embedded.memory_files import damaged_memory
from graphstore.embedded.outline_files import PATTERN, is_sound
from graphstore.embedded.shared_tables import unused
from graphstore.embedded.table_files import TABLES
from graphstore.embedded.views import Views
from graphstore.errors import NameTakenError, StoreError, UnknownNameError
from graphstore.model import Side
from graphstore.private_folder import made_in

_ASIDE = "damaged"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something in the store's folder, with what is wrong about it in words."""

    path: Path
    text: str


def leftovers(folder: StoreFolder, views: Views) -> list[Trouble]:
    """What writers that died left behind; none of a writer that lives."""
    if not folder.check():
        return []
    with os_errors("read", folder.root):
        troubles = [
            Trouble(path, f"half-written by a process that is gone: {path.name}")
            for path in abandoned_drafts(folder.root)
        ]
        for entry in _readable(folder):
            named = entry.manifest.get("tables", {}).get("folder"), entry.manifest.get("database")
            troubles += [
                Trouble(
                    path, f"files that the {what(entry)} {entry.name!r} does not use: {path.name}"
                )
                for pattern in (f"{TABLES}*", "*.lbug")
                for path in sorted(entry.folder.glob(pattern))
                # Of an entry without its own, others may be all there is.
                if path.name not in named and not entry.damaged()
            ]
        troubles += _spoilt_arrays(folder)
        troubles += [
            Trouble(path, f"tables of runs that are not there any more: shared/{path.name}")
            for path in unused(folder.root)
        ]
        troubles += [
            Trouble(path, f"a derived database nobody can ask any more: scratch/{path.name}")
            for path in views.orphans()
        ]
    return troubles


def _spoilt_arrays(folder: StoreFolder) -> Iterator[Trouble]:
    """Kept arrays that are damaged, or of a graph that was replaced."""
    seen = set[Path]()
    for entry in _readable(folder):
        if entry.home in seen:  # runs kept together
            continue
        seen.add(entry.home)
        with suppress(DamagedStoreError):  # damaged_entries tells of it
            place = entry_place(entry)
            contents = {place.graph(side)[1] for side in Side}
            for path in sorted(entry.home.glob(PATTERN)):
                if not is_sound(path, contents):
                    of_what = f"the {what(entry)} {entry.name!r}"
                    yield Trouble(path, f"damaged or old arrays of {of_what}: {path.name}")


def remove_leftovers(folder: StoreFolder, views: Views) -> list[str]:
    """Delete all :func:`leftovers`; a sentence for each."""
    if not folder.check():
        return []
    done = []
    # Nobody publishes meanwhile, so that a database just being put in place is not one.
    with os_errors("write", folder.root), alone(folder.root):
        for trouble in leftovers(folder, views):
            remove_draft(trouble.path)
            done.append(f"removed {trouble.text}")
    return done


def damaged_entries(folder: StoreFolder, *, again: bool) -> list[Trouble]:
    """The entries that cannot be read; every file is read whole.

    With *again*, also those that this process read before.
    """
    if not folder.check():
        return []
    if again:
        forget_read()
    troubles = []
    for kind, path in _entry_folders(folder):
        damage = _damage(folder, kind, path.name)
        if damage:
            name = f"{'run' if kind == 'runs' else 'graph'} {path.name!r}"
            troubles.append(Trouble(path, f"the {name} is damaged: {damage}"))
    with os_errors("read", folder.root):
        for path, damage in damaged_memory(folder.root):
            troubles.append(Trouble(path, f"{path.relative_to(folder.root)} is damaged: {damage}"))
    return troubles


def written_by_others(entries: Iterable[Entry]) -> Iterator[str]:
    """A sentence for each of *entries* that is a database of another version of the engine."""
    for entry in entries:
        writer = entry.manifest.get("engine")
        if entry.tables is not None or writer == engine_name():
            continue
        name = f"the {what(entry)} {entry.name!r}"
        try:
            check_form(entry.database, writer)
            yield f"{name}: {writer or 'an older ladybug'} wrote it; a copy is read"
        except (OSError, StoreError) as error:
            yield f"{name}: {error}"


def set_damaged_aside(folder: StoreFolder) -> list[str]:
    """Move what is damaged into the folder ``damaged``; a sentence for each."""
    done = []
    with os_errors("write", folder.root):
        try:
            folder.check()
        except DamagedStoreError as error:
            done.append(f"{STORE} {error.what}; made again{_store_aside(folder)}")
        for trouble in damaged_entries(folder, again=True):
            name = f"{trouble.path.parent.name}-{trouble.path.name}"
            done.append(f"{trouble.text}; moved to {_moved_aside(folder, trouble.path, name)}")
    return done


def _store_aside(folder: StoreFolder) -> str:
    """Make ``store.json`` again, if nothing here is of another version; where the old one is."""
    for kind, entry in _entry_folders(folder):
        with suppress(DamagedStoreError):  # for later; one of another version is an error here
            folder.entry(kind, entry.name)
    path = folder.root / STORE
    moved = f", the old one is {_moved_aside(folder, path, STORE)}" if path.exists() else ""
    folder.mark()
    return moved


def _moved_aside(folder: StoreFolder, path: Path, name: str) -> str:
    aside = folder.root / _ASIDE
    made_in(folder.root, aside)
    with alone(folder.root):
        target = _free(aside / name)
        path.rename(target)
        sync(path.parent)
    return f"{_ASIDE}/{target.name}"


def disk_space(root: Path) -> int:
    """The bytes of all files below *root*, each counted once however many names it has."""
    sizes = {}
    with os_errors("read", root):
        for path in root.rglob("*"):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # deleted since it was listed
            if not path.is_dir():
                sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def readable_entries(folder: StoreFolder) -> list[Entry]:
    """The entries whose manifests are not damaged."""
    return list(_readable(folder)) if folder.check() else []


def _damage(folder: StoreFolder, kind: str, name: str) -> str:
    try:
        entry = folder.entry(kind, name)
        if entry is None:
            there = (folder.root / kind / name).exists()
            return "its manifest.json is missing" if there else ""
        entry_place(entry)
        as_written(entry)
        is_as_written(entry)
        damaged = entry.damaged()
        if not damaged or folder.entry(kind, name) != entry:  # replaced meanwhile
            return ""
    except StoreError as error:
        return error.what
    return f"{damaged[0].name} is missing, cut or changed"


def _readable(folder: StoreFolder) -> Iterator[Entry]:
    for kind, path in _entry_folders(folder):
        try:
            entry = folder.entry(kind, path.name)
        except StoreError:
            continue  # damaged_entries tells of it
        if entry is not None:
            yield entry


def _entry_folders(folder: StoreFolder) -> Iterator[tuple[str, Path]]:
    for kind in KINDS:
        with os_errors("read", folder.root / kind):
            for path in sorted((folder.root / kind).glob("[!.]*")):
                if path.is_dir():
                    yield kind, path


def _free(path: Path) -> Path:
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def incomplete(entries: Sequence[Entry]) -> Iterator[tuple[list[Entry], str]]:
    """Those of *entries* that :func:`renew` writes anew, those that share their tables together,
    and why."""
    groups: dict[Path, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.home, []).append(entry)
    for group in groups.values():
        with suppress(StoreError):  # damaged_entries or written_by_others tells of it
            if group[0].tables is None and not group[0].damaged():
                check_form(group[0].database, group[0].manifest.get("engine"))
                yield group, "an earlier version wrote it without tables"


def renew(folder: StoreFolder, entries: Sequence[Entry], views: Views) -> Iterator[str]:
    """Write those of *entries* anew that are :func:`incomplete`; a sentence for each."""
    for group, reason in incomplete(entries):
        with suppress(DamagedStoreError, NameTakenError, UnknownNameError):  # or changed meanwhile
            stamps = {entry.name: entry.stamp for entry in group}
            write_copies(folder, views.pairs(group), replace=True, stamps=stamps)
            for entry in group:
                yield f"wrote the {what(entry)} {entry.name!r} anew: {reason}"
