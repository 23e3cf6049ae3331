"""Finds the folder of a graph's dump files in a dump tree.

The device writes ``{dump_path}/{time}/{device}/{model}/{model id}/{step}/<file>``;
users point at any of these levels, or at a folder that directly holds files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from graphstore.errors import InputError
from importers.dumps.ascend import is_device_dump
from importers.dumps.golden import NPY
from importers.dumps.names import MAPPING, OPDEBUG, read_mapping

# Two more than the device makes: users may point at a folder around dump_path.
_LEVELS = 7
_TIME = re.compile(r"\d{14}")
_STAMP = re.compile(r"\d{8,}")
_TRAILING = re.compile(r"_(\d+)$")
_EXPECTED = (
    "expected {op type}.{op name}.{task}.{stream}.{time} or {op name}.{output}.{time}.npy "
    "files, here or below"
)


@dataclass(frozen=True, slots=True)
class DumpFolder:
    """The chosen folder, why it was chosen, and the folders that were not."""

    path: Path
    reason: str
    others: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A folder that holds dump files and the levels it lies in, empty if not there."""

    path: Path
    time: str
    device: str
    model: str
    model_id: str
    step: str


def find_dump_folder(root: Path, graph_name: str) -> DumpFolder:
    """The folder with the dump files of the graph *graph_name* in the tree *root*.

    The model level decides: the graph's name, the name with or without ``_0``, or else
    the same trailing number. Then the newest time, the lowest device, the lowest model
    id and the first step with files. ``reason`` says every choice there was.

    Raises:
        InputError: no dump files, none of this graph's, or the folder cannot be read.
    """
    leaves = _leaves(root)
    if not leaves:
        raise InputError("no dump files in this folder", where=str(root), hint=_EXPECTED)
    if leaves[0].path == root:
        return DumpFolder(root, "the folder itself holds dump files", ())
    fitting, why = _of_graph(leaves, graph_name, root)
    chosen, said = _choose(fitting)
    others = tuple(leaf.path for leaf in leaves if leaf is not chosen)
    return DumpFolder(chosen.path, "; ".join([why, *said]), others)


def model_names(root: Path) -> list[str]:
    """The names of the model folders in a dump tree, sorted.

    If *root* lies at the model level or below, the one name the levels above tell.
    Empty without dump files.

    Raises:
        InputError: the folder cannot be read.
    """
    leaves = _leaves(root)
    names = {leaf.model for leaf in leaves if leaf.model}
    if leaves and not names:
        names.add(_model_above(root))
    return sorted(names - {""})


def _model_above(root: Path) -> str:
    """The nearest name that is no number, *root* or at most two levels above it."""
    root = root.resolve()
    nearest = (root.name, root.parent.name, root.parent.parent.name)
    return next((name for name in nearest if not name.isdecimal()), "")


def _leaves(root: Path) -> list[_Leaf]:
    """The folders with dump files at or below *root*; only *root* if it is one."""
    seen: set[tuple[int, int]] = set()
    return [_leaf(root, path) for path in _walk(root, 0, seen)]


def _walk(folder: Path, depth: int, seen: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            level = _look(entries, seen)
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
            for leaf in _walk(folder / name, depth + 1, seen):
                found = True
                yield leaf
    if level.arrays and not found:
        yield folder


@dataclass(slots=True)
class _Level:
    """What lies in one folder; ``arrays``: ``.npy`` files with no number in the name.

    Such arrays may be dumps, but as well the model's input beside the dump folders.
    """

    dumps: bool = False
    arrays: bool = False
    mapping: bool = False
    folders: list[str] = field(default_factory=list)


def _look(entries: Iterable[os.DirEntry[str]], seen: set[tuple[int, int]]) -> _Level:
    level = _Level()
    for entry in entries:
        if _is_new_folder(entry, seen):
            level.folders.append(entry.name)
        elif _is_dump(entry.name):
            level.dumps = True
            break
        level.arrays = level.arrays or entry.name.endswith(NPY)
        level.mapping = level.mapping or entry.name == MAPPING
    return level


def _is_new_folder(entry: os.DirEntry[str], seen: set[tuple[int, int]]) -> bool:
    """True for a folder not *seen* yet; links may lead back up."""
    try:
        if not entry.is_dir():
            return False
        status = entry.stat()
    except OSError:
        return False  # a link to nowhere
    place = (status.st_dev, status.st_ino)
    new = place not in seen
    seen.add(place)
    return new


def _is_dump(name: str) -> bool:
    if name.endswith(NPY):
        return name.removesuffix(NPY).rpartition(".")[2].isdecimal()
    return not name.startswith(OPDEBUG) and is_device_dump(name.removesuffix(".csv"), {})


def _leaf(root: Path, path: Path) -> _Leaf:
    """Name the levels of a folder below *root*.

    The time, 14 digits, fixes the others; below it the model is the last name that is
    no number. The root's own name counts as time or device only: what users point at
    directly needs no fitting name.
    """
    below = path.relative_to(root).parts
    chain = (root.resolve().name, *below)
    for index, name in enumerate(chain):
        if _TIME.fullmatch(name):
            device, model, model_id, step = (*chain[index + 1 :], "", "", "", "")[:4]
            return _Leaf(path, name, device, model, model_id, step)
    named = [index for index, name in enumerate(below) if not name.isdecimal()]
    if not named:
        model_id, step = ("", "", *below)[-2:]
        return _Leaf(path, "", "", "", model_id, step)
    at = named[-1]
    model_id, step = (*below[at + 1 :], "", "")[:2]
    return _Leaf(path, "", below[at - 1] if at else "", below[at], model_id, step)


def _of_graph(leaves: list[_Leaf], graph_name: str, root: Path) -> tuple[list[_Leaf], str]:
    """The folders of the graph's model, with the reason."""
    models = sorted({leaf.model for leaf in leaves if leaf.model})
    if not models:
        return leaves, _said_of(_model_above(root), graph_name)
    for text, fits in _RULES:
        fitting = [leaf for leaf in leaves if leaf.model and fits(leaf.model, graph_name)]
        if fitting:
            return fitting, text.format(_one(leaf.model for leaf in fitting))
    if len(leaves) == 1 and any(leaves[0].path.glob(f"*{NPY}")):
        return leaves, "the only folder with dump files, .npy without a model level"
    raise InputError(
        f"no dump of graph {graph_name!r}",
        where=str(root),
        hint=f"model folders here: {', '.join(models)}",
    )


def _said_of(model: str, graph_name: str) -> str:
    for text, fits in _RULES:
        if fits(model, graph_name):
            return text.format(model)
    return "the folder was given below the model level, so its model is not checked"


def _one(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


def _same(model: str, graph: str) -> bool:
    return model == graph


def _numbered(model: str, graph: str) -> bool:
    return f"{graph}_0" == model or f"{model}_0" == graph


def _same_but_time(model: str, graph: str) -> bool:
    return _STAMP.sub("", model) == _STAMP.sub("", graph) and _same_number(model, graph)


def _same_number(model: str, graph: str) -> bool:
    ours, theirs = _TRAILING.search(graph), _TRAILING.search(model)
    # _0 counts instances of a model; it says nothing of which model.
    return bool(ours and theirs and ours[1] == theirs[1] != "0")


_RULES: tuple[tuple[str, Callable[[str, str], bool]], ...] = (
    ("model folder {} has the graph's name", _same),
    ("model folder {} has the graph's name but for _0", _numbered),
    ("model folder {} differs from the graph's name in its time only", _same_but_time),
    ("model folder {} has only the trailing number of the graph's name", _same_number),
)


def _choose(leaves: list[_Leaf]) -> tuple[_Leaf, list[str]]:
    """The one to take, and a phrase for each level there was a choice on."""
    said: list[str] = []
    for title, level, best in _LEVELS_TO_CHOOSE:
        values = {level(leaf) for leaf in leaves}
        chosen = best(values, key=_numeric)
        if len(values) > 1:
            said.append(title.format(chosen, len(values)))
        leaves = [leaf for leaf in leaves if level(leaf) == chosen]
    return leaves[0], said


def _numeric(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() else (-1, name)


_LEVELS_TO_CHOOSE: tuple[tuple[str, Callable[[_Leaf], str], Callable[..., str]], ...] = (
    ("time {} is the newest of {}", attrgetter("time"), max),
    ("device {} is the lowest of {}", attrgetter("device"), min),
    ("model {} is the last of {}", attrgetter("model"), max),
    ("model id {} is the lowest of {}", attrgetter("model_id"), min),
    ("step {} is the first of {} with files", attrgetter("step"), min),
)
