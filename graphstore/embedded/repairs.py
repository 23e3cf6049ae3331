"""What in a store's folder is left over, and what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphstore.embedded.disk import abandoned_drafts, alone, os_errors, remove_draft, sync
from graphstore.embedded.entry_facts import as_written, entry_place, is_as_written, what
from graphstore.embedded.folders import KINDS, Entry, StoreFolder
from graphstore.embedded.scratch import Scratch
from graphstore.embedded.shared_databases import unused
from graphstore.errors import StoreError

_ASIDE = "damaged"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something in the store's folder, with what is wrong about it in words."""

    path: Path
    text: str


def leftovers(folder: StoreFolder, scratch: Scratch) -> list[Trouble]:
    """What writers that died left behind; none of a writer that lives."""
    if not folder.check():
        return []
    with os_errors("read", folder.root):
        found = [
            Trouble(path, f"half-written by a process that is gone: {path.name}")
            for path in abandoned_drafts(folder.root)
        ]
        for entry in _readable(folder):
            found += [
                Trouble(path, f"a database of the {what(entry)} {entry.name!r} it does not use")
                for path in sorted(entry.folder.glob("*.lbug"))
                # Of an entry without its database, another one may be all there is.
                if path.name != entry.manifest["database"] and entry.is_whole()
            ]
        found += [
            Trouble(path, f"a database of runs that are not there any more: shared/{path.name}")
            for path in unused(folder.root)
        ]
        found += [
            Trouble(path, f"a derived database nobody can ask any more: scratch/{path.name}")
            for path in scratch.orphans()
        ]
    return found


def remove_leftovers(folder: StoreFolder, scratch: Scratch) -> list[str]:
    """Delete all :func:`leftovers`; a sentence for each."""
    if not folder.check():
        return []
    done = []
    # Nobody publishes meanwhile, so that a database just being put in place is not one.
    with os_errors("write", folder.root), alone(folder.root):
        for trouble in leftovers(folder, scratch):
            remove_draft(trouble.path)
            done.append(f"removed {trouble.text}")
    return done


def damaged_entries(folder: StoreFolder, *, thorough: bool) -> list[Trouble]:
    """The entries that cannot be read; *thorough* also reads every database file whole."""
    if not folder.check():
        return []
    found = []
    for kind, path in _entry_folders(folder):
        said = _damage(folder, kind, path.name, thorough=thorough)
        if said:
            name = f"{'run' if kind == 'runs' else 'graph'} {path.name!r}"
            found.append(Trouble(path, f"the {name} is damaged: {said}"))
    return found


def set_damaged_aside(folder: StoreFolder) -> list[str]:
    """Move damaged entries into the folder ``damaged``; a sentence for each."""
    done = []
    with os_errors("write", folder.root):
        for trouble in damaged_entries(folder, thorough=True):
            aside = folder.root / _ASIDE
            aside.mkdir(exist_ok=True)
            with alone(folder.root):
                target = _free(aside / f"{trouble.path.parent.name}-{trouble.path.name}")
                trouble.path.rename(target)
                sync(trouble.path.parent)
            done.append(f"{trouble.text}; moved to {_ASIDE}/{target.name}")
    return done


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


def whole_entries(folder: StoreFolder) -> list[Entry]:
    """The entries that are not damaged, as far as their manifests and lengths tell."""
    doubtful = {trouble.path for trouble in damaged_entries(folder, thorough=False)}
    return [entry for entry in _readable(folder) if entry.folder not in doubtful]


def _damage(folder: StoreFolder, kind: str, name: str, *, thorough: bool) -> str:
    try:
        entry = folder.entry(kind, name)
        if entry is None:
            there = (folder.root / kind / name).exists()
            return "its manifest.json is missing" if there else ""
        entry_place(entry)
        as_written(entry)
        is_as_written(entry)
        whole = entry.is_unchanged() if thorough else entry.is_whole()
        if whole or folder.entry(kind, name) != entry:  # replaced meanwhile
            return ""
    except StoreError as error:
        return error.what
    return f"{entry.manifest['database']} is missing, cut or changed"


def _readable(folder: StoreFolder) -> Iterator[Entry]:
    for kind, path in _entry_folders(folder):
        try:
            entry = folder.entry(kind, path.name)
        except StoreError:
            continue  # damaged_entries tells of it
        if entry is not None:
            yield entry


def _entry_folders(folder: StoreFolder) -> Iterator[tuple[str, Path]]:
    if not folder.check():
        return
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
