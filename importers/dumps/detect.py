"""What kinds of dumps a path holds, and which runs, ranks and steps of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from importers.contract import Confidence
from importers.dumps.arrays.golden import NPY, golden_ending
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.arrays.polygraphy import JSON, is_results
from importers.dumps.arrays.tfdbg import device_folders
from importers.dumps.ascend.file import look_at
from importers.dumps.ascend.index import is_device_dump
from importers.dumps.index import DamagedError, FolderListing, list_folder
from importers.dumps.msprobe.index import DUMP
from importers.dumps.msprobe.statistics_csv import ENDING, TABLE
from importers.dumps.names import MAPPING, OPDEBUG, parse_dump_name, read_mapping
from importers.dumps.open_file import open_dump
from importers.dumps.tree import dump_leaves

_TRIED = 3
"""Files of a kind whose content is looked at; a folder's files are of one writer."""


class DumpKind(StrEnum):
    """Kinds of dumps, by what wrote them."""

    ASCEND = "ascend"
    STATISTICS = "statistics"
    NPY = "npy"
    TFDBG = "tfdbg"
    MSPROBE = "msprobe"
    POLYGRAPHY = "polygraphy"


@dataclass(frozen=True, slots=True)
class FoundDump:
    """A kind of dump in one place. ``files`` counts its files as far as they are told by
    name; the levels are empty where the place has none."""

    path: Path
    kind: DumpKind
    confidence: Confidence
    reason: str
    files: int = 0
    time: str = ""
    rank: str = ""
    model: str = ""
    model_id: str = ""
    step: str = ""


def detect_dumps(path: Path) -> tuple[FoundDump, ...]:
    """The kinds of dumps directly at *path*, a folder or a file; the surest first.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    if path.is_file():
        found = list(_of_file(path))
    elif devices := device_folders(path):
        reason = f"{devices[0].name} is a device of a TensorFlow debugger session"
        found = [FoundDump(path, DumpKind.TFDBG, Confidence.SURE, reason)]
    else:
        found = list(_of_folder(path, list_folder(path)))
    return tuple(sorted(found, key=lambda dump: (-dump.confidence, -dump.files)))


def list_dumps(root: Path) -> tuple[FoundDump, ...]:
    """Every dump at or below *root* with its time, rank, model and step.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    if root.is_file():
        return detect_dumps(root)
    return tuple(
        replace(
            dump,
            time=leaf.time,
            rank=leaf.device if leaf.device.isdecimal() else "",
            model=leaf.model,
            model_id=leaf.model_id,
            step=leaf.step,
        )
        for leaf in dump_leaves(root)
        for dump in detect_dumps(leaf.path)
    )


def detect_tensor_file(path: Path) -> FoundDump | None:
    """What a single dump file holds by itself; None for any other file.

    Comparing runs takes its folder; ``diff`` compares single files.
    """
    for kind, reason_of, named in (
        (DumpKind.ASCEND, _device_reason, is_device_dump(path.name, {})),
        (DumpKind.NPY, _array_reason, path.suffix == NPY),
    ):
        if named:
            good, reason = reason_of(path)
            if good:
                return FoundDump(path, kind, Confidence.SURE, reason, 1)
    return None


def _of_file(path: Path) -> Iterator[FoundDump]:
    if path.suffix == JSON and is_results(path):
        reason = "JSON that holds arrays as Polygraphy writes them"
        yield FoundDump(path, DumpKind.POLYGRAPHY, Confidence.SURE, reason, 1)


def _of_folder(folder: Path, listing: FolderListing) -> Iterator[FoundDump]:
    if DUMP in listing.files:
        reason = f"{DUMP} names the tensors"
        yield FoundDump(folder, DumpKind.MSPROBE, Confidence.SURE, reason, 1)
        return
    mapping = read_mapping(folder) if MAPPING in listing.files else {}
    device = [
        name
        for name in listing.files
        if not name.startswith(OPDEBUG) and is_device_dump(name, mapping)
    ]
    if device:
        yield _tried(folder, DumpKind.ASCEND, device, _device_reason)
    tables = [name for name in listing.files if _is_table(name)]
    if tables:
        reason = f"{tables[0]} is named as a table of statistics"
        yield FoundDump(folder, DumpKind.STATISTICS, Confidence.SURE, reason, len(tables))
    arrays = [name for name in listing.files if golden_ending(name) == NPY]
    if arrays:
        yield _tried(folder, DumpKind.NPY, arrays, _array_reason)
    for name in listing.files:
        if name.endswith(JSON):
            yield from _of_file(folder / name)


def _is_table(name: str) -> bool:
    return name == TABLE or (
        name.endswith(ENDING) and parse_dump_name(name.removesuffix(ENDING)) is not None
    )


def _tried(
    folder: Path, kind: DumpKind, names: list[str], reason_of: Callable[[Path], tuple[bool, str]]
) -> FoundDump:
    """The kind with what the first files say: sure if one of them can be read."""
    reason = ""
    for name in names[:_TRIED]:
        good, reason = reason_of(folder / name)
        if good:
            return FoundDump(folder, kind, Confidence.SURE, reason, len(names))
    return FoundDump(folder, kind, Confidence.MAYBE, reason, len(names))


def _device_reason(path: Path) -> tuple[bool, str]:
    file = look_at(path, None)
    if file.header is not None:
        return True, f"{path.name} has a header of kind {file.header.format}"
    return False, f"{path.name}: {file.damage.detail if file.damage else 'no header'}"


def _array_reason(path: Path) -> tuple[bool, str]:
    try:
        with open_dump(path) as (fd, size):
            header = read_npy_header(fd, size)
    except DamagedError as damage:
        return False, f"{path.name}: {damage.detail}"
    return True, f"{path.name} is a .npy file of shape {list(header.shape)}"
