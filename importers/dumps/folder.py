"""Finds the folder of a graph's dump files in a dump tree, and lists what there is.

The device writes ``{dump_path}/{time}/{device}/{model}/{model id}/{step}/<file>``,
MindSpore ``rank_{n}/{net}/{graph}/{step}/``, msprobe ``step{n}/rank{n}/``, TensorFlow's
debugger one folder for each session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter, eq
from pathlib import Path

from graphstore.errors import InputError
from importers.contract import Confidence
from importers.dumps.bare.tensor import NPY
from importers.dumps.contract import ANY_DUMP, DumpChoice, DumpReader
from importers.dumps.index import is_inside
from importers.dumps.msprobe.index import sole_process
from importers.dumps.names import MAPPING, OPDEBUG, counted, read_mapping
from importers.dumps.readers import graph_readers
from importers.folder_hints import folder_hint

# Two more than the device makes: users may point at a folder around dump_path.
_LEVELS = 7
_TIME = re.compile(r"\d{14}")
_STEP = r"(?i:step)_?(\d+)"
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
    """The folders with dump files at or below *root*; only *root* if it is one. Those with nothing
    but records of overflows count where there are no others.

    Links that lead out of *root* are not followed.

    Raises:
        InputError: *root* cannot be read.
    """
    walk = _Walk(os.path.realpath(root))
    folders = list(walk.folders(root, 0))
    return [leaf_of(root, path) for path in folders or walk.recorded]


class _Walk:
    def __init__(self, home: str) -> None:
        self._home = home
        self._seen: set[tuple[int, int]] = set()
        self._readers = graph_readers()
        self._folder_readers = [
            reader
            for reader in self._readers
            if type(reader).claims_folder is not DumpReader.claims_folder
        ]
        self.recorded: list[Path] = []
        """Folders with records of overflows and no dump of a tensor."""

    def folders(self, folder: Path, depth: int) -> Iterator[Path]:
        try:
            with os.scandir(folder) as entries:
                level = self._look(entries, folder.name)
        except OSError as error:
            if depth == 0:
                raise InputError(
                    f"the dump folder cannot be read: {error.strerror}", where=str(folder)
                ) from error
            return  # an unreadable branch of the tree holds nothing for us
        if level.dumps or (level.mapping and read_mapping(folder)):
            yield folder
            return
        has_dump = False
        if depth < _LEVELS:
            for name in sorted(level.folders, key=counted):
                for leaf in self.folders(folder / name, depth + 1):
                    has_dump = True
                    yield leaf
        if not has_dump and any(reader.is_dump(folder / name) for name, reader in level.possible):
            yield folder
        elif not has_dump and level.records:
            self.recorded.append(folder)

    def _look(self, entries: Iterable[os.DirEntry[str]], folder: str) -> _Content:
        level = _Content()
        for entry in entries:
            name = entry.name
            if any(reader.claims_folder(name) for reader in self._folder_readers):
                level.dumps = True
                break
            if self._is_new_folder(entry):
                level.folders.append(name)
            else:
                claims = [(reader.claims(name, folder), reader) for reader in self._readers]
                if any(claim is Confidence.SURE for claim, _ in claims):
                    level.dumps = True
                    break
                level.possible += [
                    (name, reader) for claim, reader in claims if claim is Confidence.MAYBE
                ]
            level.records = level.records or name.startswith(OPDEBUG)
            level.mapping = level.mapping or name == MAPPING
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
class _Content:
    """What lies in one folder; ``possible``: files whose names leave it open whether they are
    dumps, with the readers that may know; ``records`` are those of overflows."""

    dumps: bool = False
    records: bool = False
    mapping: bool = False
    folders: list[str] = field(default_factory=list)
    possible: list[tuple[str, DumpReader]] = field(default_factory=list)


def is_dump_name(name: str) -> bool:
    """True if a file is called as dump files are, so that its folder is a dump."""
    return any(reader.claims(name, "") is Confidence.SURE for reader in graph_readers())


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
    leaf = _named_levels(path, chain)
    if leaf is not None:
        return leaf
    named = [index for index, name in enumerate(below) if not name.isdecimal()]
    if not named:
        model_id, step = ("", "", *below)[-2:]
        return Leaf(path, "", "", "", model_id, step)
    at = named[-1]
    model_id, step = (*below[at + 1 :], "", "")[:2]
    return Leaf(path, "", below[at - 1] if at else "", below[at], model_id, step)


def _named_levels(path: Path, chain: tuple[str, ...]) -> Leaf | None:
    """The levels of a folder below one that says ``step0`` or ``rank0`` itself."""
    step_of = _step_folders()
    steps = [match[match.lastindex or 0] for name in chain if (match := step_of(name))]
    ranks = [match[1] for name in chain if (match := _RANK.fullmatch(name))]
    if not steps and not ranks:
        return None
    place = max(index for index, name in enumerate(chain) if step_of(name) or _RANK.fullmatch(name))
    model, model_id, step = (*chain[place + 1 :], "", "", "")[:3]
    if ranks and any(map(sole_process, (path, *path.parents[: len(chain) - 1]))):
        ranks = ["0"]
    return Leaf(path, "", ranks[-1] if ranks else "", model, model_id, steps[-1] if steps else step)


@cache
def _step_folders() -> Callable[[str], re.Match[str] | None]:
    """What tells the step that a folder's name counts."""
    patterns = filter(None, (_STEP, *(reader.step_folder for reader in graph_readers())))
    return re.compile("|".join(patterns)).fullmatch


_STAMP = re.compile(r"\d{8,}")
_TRAILING = re.compile(r"_(\d+)$")
_EXPECTED = (
    "expected {op type}.{op name}.{task}.{stream}.{time} or {op name}.{output}.{time}.npy "
    "files, here or below; docs/reference/dumps.md lists every kind"
)
_NO_MODEL = "the folder was given below the model level, so its model is not checked"
_LISTED = 8


@dataclass(frozen=True, slots=True)
class DumpFolder:
    """The chosen folder, why it was chosen, and the folders that were not.

    ``decided`` names the parts of the user's choice (``step``, ...) that this tree has.
    """

    path: Path
    reason: str
    others: tuple[Path, ...]
    decided: frozenset[str] = frozenset()


def find_dump_folder(
    root: Path,
    graph_name: str | None,
    choice: DumpChoice = ANY_DUMP,
    walk: Callable[[Path], list[Leaf]] = dump_leaves,
) -> DumpFolder:
    """The folder with the dump files of the graph *graph_name* in the tree *root*.

    The model level decides: the graph's name, the name with or without ``_0``, or else
    the same trailing number; with *graph_name* None it is not looked at. Then the
    user's *choice*, or the newest time, the lowest device, the lowest model id and the
    first step with files. ``reason`` says every choice there was. *walk* lists the tree.

    Raises:
        InputError: no dump files, none of this graph's, nothing of this *choice*, or the
            folder cannot be read.
    """
    leaves = walk(root)
    if not leaves:
        raise InputError(
            "no dump files in this folder", where=str(root), hint=folder_hint(root) or _EXPECTED
        )
    if leaves[0].path == root:
        return DumpFolder(root, "the folder itself holds dump files", ())
    if graph_name is None:
        fitting, why = leaves, []
    else:
        fitting, reason = _of_graph(leaves, graph_name, root)
        why = [reason]
    chosen, notes, decided = _choose(fitting, choice, root)
    others = tuple(leaf.path for leaf in leaves if leaf is not chosen)
    only = "the only folder with dump files"
    if len(leaves) > 1:
        only = f"the only one that fits of {len(leaves)} folders with dump files"
    reason = "; ".join([*why, *notes]) or only
    return DumpFolder(chosen.path, reason, others, decided)


def model_names(root: Path, walk: Callable[[Path], list[Leaf]] = dump_leaves) -> list[str]:
    """The names of the model folders in a dump tree, sorted.

    If *root* lies at the model level or below, the one name the levels above tell.
    Empty without dump files. *walk* lists the tree.

    Raises:
        InputError: the folder cannot be read.
    """
    leaves = walk(root)
    names = {leaf.model for leaf in leaves if leaf.model}
    if leaves and not names:
        names.add(_model_above(root))
    return sorted(names - {""})


def _model_above(root: Path) -> str:
    """The nearest name that is no number, *root* or at most two levels above it."""
    root = root.resolve()
    nearest = (root.name, root.parent.name, root.parent.parent.name)
    return next((name for name in nearest if not name.isdecimal()), "")


def _of_graph(leaves: list[Leaf], graph_name: str, root: Path) -> tuple[list[Leaf], str]:
    """The folders of the graph's model, with the reason."""
    models = sorted({leaf.model for leaf in leaves if leaf.model})
    if not models:
        above = _model_above(root)
        rules = (text.format(above) for text, fits in _RULES if fits(above, graph_name))
        return leaves, next(rules, _NO_MODEL)
    for text, fits in _RULES:
        fitting = [leaf for leaf in leaves if leaf.model and fits(leaf.model, graph_name)]
        if fitting:
            return fitting, text.format(", ".join(sorted({leaf.model for leaf in fitting})))
    if len(leaves) == 1 and any(leaves[0].path.glob(f"*{NPY}")):
        return leaves, "the only folder with dump files, .npy without a model level"
    raise InputError(
        f"no dump of graph {graph_name!r}",
        where=str(root),
        hint=f"model folders here: {', '.join(models)}",
    )


def _same_number(model: str, graph: str) -> bool:
    ours, theirs = _TRAILING.search(graph), _TRAILING.search(model)
    # _0 counts instances of a model; it says nothing of which model.
    return bool(ours and theirs and ours[1] == theirs[1] != "0")


_RULES: tuple[tuple[str, Callable[[str, str], bool]], ...] = (
    ("model folder {} has the graph's name", eq),
    (
        "model folder {} has the graph's name but for _0",
        lambda model, graph: f"{graph}_0" == model or f"{model}_0" == graph,
    ),
    (
        "model folder {} differs from the graph's name in its time only",
        lambda model, graph: (
            _STAMP.sub("", model) == _STAMP.sub("", graph) and _same_number(model, graph)
        ),
    ),
    ("model folder {} has only the trailing number of the graph's name", _same_number),
)


def _choose(
    leaves: list[Leaf], choice: DumpChoice, root: Path
) -> tuple[Leaf, list[str], frozenset[str]]:
    """The one to take, a phrase for each level there was a choice on, and the parts of
    the user's choice that could be followed."""
    notes: list[str] = []
    decided: set[str] = set()
    for level in _LEVELS_TO_CHOOSE:
        values = {level.value(leaf) for leaf in leaves}
        wanted = None if level.option is None else getattr(choice, level.option)
        if wanted is not None and values != {""}:
            chosen = _wanted(level, str(wanted), values, root)
            decided.add(str(level.option))
        else:
            chosen = level.best(values, key=_numeric)
            if len(values) > 1:
                notes.append(_choice_note(level, chosen, values))
        leaves = [leaf for leaf in leaves if level.value(leaf) == chosen]
    return leaves[0], notes, frozenset(decided)


def _wanted(level: _Level, wanted: str, values: set[str], root: Path) -> str:
    for value in sorted(values, key=_numeric):
        if value == wanted or (
            value.isdecimal() and wanted.isdecimal() and int(value) == int(wanted)
        ):
            return value
    raise InputError(
        f"no {level.name} {wanted} in this dump",
        where=str(root),
        hint=f"--{str(level.option).replace('_', '-')} is one of {_listed(values)}",
    )


def _choice_note(level: _Level, chosen: str, values: set[str]) -> str:
    text = f"{level.name} {chosen} is {level.rule.format(len(values))}"
    if level.option is None:
        return text
    return f"{text} (--{level.option.replace('_', '-')}: {_listed(values)})"


def _listed(values: Iterable[str]) -> str:
    ordered = sorted(filter(None, values), key=_numeric)
    more = len(ordered) - _LISTED
    return ", ".join(ordered[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _numeric(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isascii() and name.isdigit() else (-1, name)


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of the tree: its name, the option that chooses, and what is taken without."""

    name: str
    option: str | None
    value: Callable[[Leaf], str]
    best: Callable[..., str]
    rule: str


_LEVELS_TO_CHOOSE = (
    _Level("time", "time", attrgetter("time"), max, "the newest of {}"),
    _Level("device", "rank", attrgetter("device"), min, "the lowest of {}"),
    _Level("model", None, attrgetter("model"), max, "the last of {}"),
    _Level("model id", "model_id", attrgetter("model_id"), min, "the lowest of {}"),
    _Level("step", "step", attrgetter("step"), min, "the first of {} with files"),
)
