"""The folders of a dump tree that hold dump files, and what their levels are called.

The device writes ``{dump_path}/{time}/{device}/{model}/{model id}/{step}/<file>``,
MindSpore ``rank_{n}/{net}/{graph}/{step}/``, msprobe ``step{n}/rank{n}/``, TensorFlow's
debugger one folder for each session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from graphstore.errors import InputError
from importers.dumps.arrays.golden import NPY, golden_ending
from importers.dumps.arrays.polygraphy import JSON, is_results
from importers.dumps.arrays.tfdbg import DEVICE
from importers.dumps.ascend.index import is_device_dump
from importers.dumps.index import is_inside
from importers.dumps.msprobe.index import DUMP
from importers.dumps.msprobe.statistics_csv import ENDING, TABLE
from importers.dumps.names import MAPPING, OPDEBUG, read_mapping

# Two more than the device makes: users may point at a folder around dump_path.
_LEVELS = 7
_TIME = re.compile(r"\d{14}")
_STEP = re.compile(r"step_?(\d+)", re.IGNORECASE)
_RANK = re.compile(r"(?:rank|proc|device)_?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A folder that holds dump files and the levels it lies in, empty if not there."""

    path: Path
    time: str
    device: str
    model: str
    model_id: str
    step: str


def dump_leaves(root: Path) -> list[Leaf]:
    """The folders with dump files at or below *root*; only *root* if it is one.

    Links that lead out of *root* are not followed.

    Raises:
        InputError: *root* cannot be read.
    """
    walk = _Walk(os.path.realpath(root))
    return [leaf_of(root, path) for path in walk.folders(root, 0)]


class _Walk:
    def __init__(self, home: str) -> None:
        self._home = home
        self._seen: set[tuple[int, int]] = set()

    def folders(self, folder: Path, depth: int) -> Iterator[Path]:
        try:
            with os.scandir(folder) as entries:
                level = self._look(entries)
        except OSError as error:
            if depth == 0:
                raise InputError(
                    f"the dump folder cannot be read: {error.strerror}", where=str(folder)
                ) from error
            return  # an unreadable branch of the tree holds nothing for us
        if level.dumps or (level.mapping and read_mapping(folder)):
            yield folder
            return
        found = False
        if depth < _LEVELS:
            for name in sorted(level.folders):
                for leaf in self.folders(folder / name, depth + 1):
                    found = True
                    yield leaf
        if not found and (level.arrays or any(map(is_results, level.texts))):
            yield folder

    def _look(self, entries: Iterable[os.DirEntry[str]]) -> _Level:
        level = _Level()
        for entry in entries:
            if entry.name.startswith(DEVICE):
                level.dumps = True
                break
            if self._is_new_folder(entry):
                level.folders.append(entry.name)
            elif is_dump_name(entry.name):
                level.dumps = True
                break
            level.arrays = level.arrays or entry.name.endswith(NPY)
            level.mapping = level.mapping or entry.name == MAPPING
            if entry.name.endswith(JSON):
                level.texts.append(Path(entry.path))
        return level

    def _is_new_folder(self, entry: os.DirEntry[str]) -> bool:
        """True for a folder not seen yet; links may lead back up, or out of the tree."""
        try:
            if not entry.is_dir():
                return False
            if entry.is_symlink() and not is_inside(entry.path, self._home):
                return False
            status = entry.stat()
        except OSError:
            return False  # a link to nowhere
        place = (status.st_dev, status.st_ino)
        new = place not in self._seen
        self._seen.add(place)
        return new


@dataclass(slots=True)
class _Level:
    """What lies in one folder; ``arrays``: ``.npy`` files with no number in the name.

    Such arrays may be dumps, but as well the model's input beside the dump folders.
    ``texts`` are JSON files, which may be run results.
    """

    dumps: bool = False
    arrays: bool = False
    mapping: bool = False
    folders: list[str] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)


def is_dump_name(name: str) -> bool:
    """True if a file is called as dump files are, so that its folder is a dump."""
    if name.endswith(NPY):
        return name.removesuffix(NPY).rpartition(".")[2].isdecimal()
    if name in (DUMP, TABLE) or golden_ending(name) is not None:
        return True
    return not name.startswith(OPDEBUG) and is_device_dump(name.removesuffix(ENDING), {})


def leaf_of(root: Path, path: Path) -> Leaf:
    """Name the levels of a folder below *root*.

    The time, 14 digits, fixes the others; below it the model is the last name that is
    no number. The root's own name counts as time, device or step only: what users point
    at directly needs no fitting name.
    """
    below = path.relative_to(root).parts
    chain = (root.resolve().name, *below)
    for index, name in enumerate(chain):
        if _TIME.fullmatch(name):
            device, model, model_id, step = (*chain[index + 1 :], "", "", "", "")[:4]
            return Leaf(path, name, device, model, model_id, step)
    told = _told(path, chain)
    if told is not None:
        return told
    named = [index for index, name in enumerate(below) if not name.isdecimal()]
    if not named:
        model_id, step = ("", "", *below)[-2:]
        return Leaf(path, "", "", "", model_id, step)
    at = named[-1]
    model_id, step = (*below[at + 1 :], "", "")[:2]
    return Leaf(path, "", below[at - 1] if at else "", below[at], model_id, step)


def _told(path: Path, chain: tuple[str, ...]) -> Leaf | None:
    """The levels of a folder below one that says ``step0`` or ``rank0`` itself."""
    steps = [found[1] for name in chain if (found := _STEP.fullmatch(name))]
    ranks = [found[1] for name in chain if (found := _RANK.fullmatch(name))]
    if not steps and not ranks:
        return None
    place = max(
        index for index, name in enumerate(chain) if _STEP.fullmatch(name) or _RANK.fullmatch(name)
    )
    model, model_id, step = (*chain[place + 1 :], "", "", "")[:3]
    return Leaf(path, "", ranks[-1] if ranks else "", model, model_id, steps[-1] if steps else step)
