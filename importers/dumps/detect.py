"""What kinds of dumps a path holds, which runs, ranks and steps of them, and their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from graphstore.errors import ImportFormatError, InputError
from graphstore.model import ModelGraph
from importers.archives import packed_note
from importers.contract import Confidence
from importers.dumps.arrays.golden import NPY, golden_ending, scan_golden_listing
from importers.dumps.arrays.npy import read_npy_header
from importers.dumps.arrays.polygraphy import (
    JSON,
    is_results,
    iteration_of,
    read_iterations,
    scan_polygraphy,
)
from importers.dumps.arrays.tfdbg import device_folders, scan_tfdbg
from importers.dumps.ascend.file import look_at
from importers.dumps.ascend.index import is_device_dump, scan_device_listing
from importers.dumps.bare.files import bare_kind
from importers.dumps.bare.index import find_tensors
from importers.dumps.folder import dump_leaves
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpProblem,
    FolderListing,
    list_folder,
    merged,
    open_dump,
)
from importers.dumps.msprobe.index import described_by, scan_msprobe
from importers.dumps.msprobe.statistics_csv import ENDING, TABLE
from importers.dumps.names import MAPPING, OPDEBUG, parse_dump_name, read_mapping

_TRIED = 3
"""Files of a kind whose content is looked at; a folder's files are of one writer."""


class DumpKind(StrEnum):
    """Kinds of dumps, by what wrote them."""

    ASCEND = "ascend"
    STATISTICS = "statistics"
    NPY = "npy"
    GOLDEN = "golden"
    TFDBG = "tfdbg"
    MSPROBE = "msprobe"
    POLYGRAPHY = "polygraphy"
    NPZ = "npz"
    TORCH = "torch"
    RAW = "raw"


DUMPS_READ: Mapping[DumpKind, str] = {
    DumpKind.ASCEND: "Ascend dump files, and their folders of any level",
    DumpKind.STATISTICS: "tables of statistics: {dump name}.csv, MindSpore's statistic.csv",
    DumpKind.NPY: ".npy files named after ops or tensors, or made by converters",
    DumpKind.GOLDEN: "{op}.{output}.{time}.pb and .quant of Caffe tools and msaccucmp's converter",
    DumpKind.TFDBG: "session folders of TensorFlow's debugger, and their files",
    DumpKind.MSPROBE: "folders with msprobe's dump.json",
    DumpKind.POLYGRAPHY: "JSON files of Polygraphy's --save-outputs",
    DumpKind.NPZ: ".npz archives (diff)",
    DumpKind.TORCH: ".pt files of one tensor (msprobe's, diff)",
    DumpKind.RAW: "{name}.{shape}.{type}.{layout}.bin, or any file with --dtype and --shape (diff)",
}
"""The kinds of dumps with a phrase each; those with (diff) are for ``diff`` alone."""


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
        return tuple(each for found in detect_dumps(root) for each in _iterations_of(found))
    return tuple(
        replace(
            dump,
            time=leaf.time,
            rank=leaf.device if leaf.device.isdecimal() else "",
            model=leaf.model,
            model_id=leaf.model_id,
            step=leaf.step or _numbered(iteration_of(dump.path.name)),
        )
        for leaf in dump_leaves(root)
        for dump in detect_dumps(leaf.path)
    )


def packed_notes(dumps: Iterable[FoundDump]) -> Iterator[tuple[Path, str]]:
    """The folders of *dumps* with archives beside the files that are read, and what to do."""
    for place in dict.fromkeys(dump.path for dump in dumps):
        if note := packed_note(place):
            yield place, note


def _iterations_of(found: FoundDump) -> Iterator[FoundDump]:
    """*found*, a file of results, once for each iteration of its first runner."""
    try:
        iterations = read_iterations(found.path) if found.kind is DumpKind.POLYGRAPHY else ()
    except DamagedError:
        iterations = ()  # who reads it says what is wrong
    numbers = [each.number for each in iterations if each.runner == iterations[0].runner]
    if len(numbers) < 2:
        yield found
    for number in numbers if len(numbers) > 1 else ():
        yield replace(found, step=str(number))


def _numbered(number: int | None) -> str:
    return "" if number is None else str(number)


def detect_tensor_file(path: Path) -> FoundDump | None:
    """What a single dump file holds by itself; None for any other file.

    Comparing runs takes its folder; ``diff`` compares single files.
    """
    for kind, named in (
        (DumpKind.ASCEND, is_device_dump(path.name, {})),
        (DumpKind.NPY, path.suffix == NPY),
        (DumpKind.GOLDEN, golden_ending(path.name) not in (None, NPY)),
    ):
        found = _tried(path.parent, kind, [path.name]) if named else None
        if found is not None and found.confidence is Confidence.SURE:
            return replace(found, path=path)
    kind_told = bare_kind(path.name)
    found = _bare(path, path.name, DumpKind(kind_told)) if kind_told else None
    return found if found is not None and found.confidence is Confidence.SURE else None


def detect_bare_files(folder: Path) -> tuple[FoundDump, ...]:
    """Files right in *folder* that only ``diff`` reads, as they name no ops of a graph.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    by_kind: dict[str, list[str]] = {}
    for name in list_folder(folder).files:
        if (kind := bare_kind(name)) and kind != DumpKind.TFDBG:
            by_kind.setdefault(kind, []).append(name)
    return tuple(
        replace(_bare(folder, names[0], DumpKind(kind)), files=len(names))
        for kind, names in by_kind.items()
    )


def _bare(path: Path, name: str, kind: DumpKind) -> FoundDump:
    """What is at *path*, told by the file *name* of it, which has no graph."""
    file = path / name if path.is_dir() else path
    tensors = find_tensors(file).tensors
    damaged = next((tensor for tensor in tensors if tensor.reason is not None), None)
    if damaged is not None or not tensors:
        reason = f"{name}: {damaged.damage if damaged else 'it holds no tensor'}"
        return FoundDump(path, kind, Confidence.MAYBE, reason, 1)
    many = "a tensor" if len(tensors) == 1 else f"{len(tensors)} tensors"
    return FoundDump(path, kind, Confidence.SURE, f"{name} holds {many}; diff reads it", 1)


def _of_file(path: Path) -> Iterator[FoundDump]:
    if path.suffix == JSON and is_results(path):
        reason = "JSON that holds arrays as Polygraphy writes them"
        yield FoundDump(path, DumpKind.POLYGRAPHY, Confidence.SURE, reason, 1)


def _of_folder(folder: Path, listing: FolderListing) -> Iterator[FoundDump]:
    if told := described_by(listing.files):
        reason = f"{told} names the tensors"
        yield FoundDump(folder, DumpKind.MSPROBE, Confidence.SURE, reason, 1)
        return
    mapping = read_mapping(folder) if MAPPING in listing.files else {}
    records = [name for name in listing.files if name.startswith(OPDEBUG)]
    names = [name for name in listing.files if name not in records]
    device = [name for name in names if is_device_dump(name, mapping)] or records
    if device:
        yield _tried(folder, DumpKind.ASCEND, device)
    tables = [
        name
        for name in listing.files
        if name == TABLE or (name.endswith(ENDING) and parse_dump_name(name.removesuffix(ENDING)))
    ]
    if tables:
        reason = f"{tables[0]} is named as a table of statistics"
        yield FoundDump(folder, DumpKind.STATISTICS, Confidence.SURE, reason, len(tables))
    arrays = [name for name in listing.files if golden_ending(name) == NPY]
    if arrays:
        yield _tried(folder, DumpKind.NPY, arrays)
    headed = [name for name in listing.files if golden_ending(name) not in (None, NPY)]
    found = _tried(folder, DumpKind.GOLDEN, headed)
    if found.confidence is Confidence.SURE:  # graphs have such names, too
        yield found
    for name in listing.files:
        if name.endswith(JSON):
            yield from _of_file(folder / name)


def _tried(folder: Path, kind: DumpKind, names: list[str]) -> FoundDump:
    """The kind with what the first files say: sure if one of them can be read."""
    reason, confidence = "", Confidence.MAYBE
    for name in names[:_TRIED]:
        try:
            told = _READERS[kind](folder / name)
        except DamagedError as damage:
            reason = f"{name}: {damage.detail}"
        else:
            reason, confidence = f"{name} {told}", Confidence.SURE
            break
    return FoundDump(folder, kind, confidence, reason, len(names))


def _device_file(path: Path) -> str:
    return f"has a header of kind {look_at(path, None).whole_header().format}"


def _array_file(path: Path) -> str:
    with open_dump(path) as (fd, size):
        return f"is a .npy file of shape {list(read_npy_header(fd, size).shape)}"


_READERS = {
    DumpKind.ASCEND: _device_file,
    DumpKind.GOLDEN: _device_file,
    DumpKind.NPY: _array_file,
}
"""What tries to read a file of a kind, and says in words what it is."""


def scan_dumps(path: Path, graph: ModelGraph, *, step: int | None = None) -> DumpIndex:
    """The tensors of the dump at *path*, by op of *graph*.

    *path* is a folder that directly holds dump files of any kind, a session folder of
    TensorFlow's debugger, a folder with msprobe's ``dump.json``, or a JSON file of
    Polygraphy, of which *step* chooses the iteration. A tensor found in several files
    counts by its later timestamp, values before statistics.

    Raises:
        ImportFormatError: the one file that describes the whole dump is damaged.
        InputError: the folder is missing or may not be read.
    """
    if path.is_file():
        return _whole(path, lambda: scan_polygraphy(path, graph, step))
    if device_folders(path):
        return scan_tfdbg(path, graph)
    listing = list_folder(path)
    if told := described_by(listing.files):
        return _whole(path / told, lambda: scan_msprobe(path, graph))
    parts = [scan_device_listing(listing, graph)]
    if any(golden_ending(name) for name in (*listing.files, *listing.others)):
        parts.append(scan_golden_listing(listing, graph))
    parts += _results(listing, graph, step)
    index = parts[0] if len(parts) == 1 else merged(parts)
    note = packed_note(path)
    return replace(index, notes=(*index.notes, note)) if note else index


def _whole(path: Path, scan: Callable[[], DumpIndex]) -> DumpIndex:
    try:
        return scan()
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage


def _results(listing: FolderListing, graph: ModelGraph, step: int | None) -> list[DumpIndex]:
    """Polygraphy's JSON files in a folder; a damaged one is a problem of its own.

    Of files that are called by their iterations one is taken: that of *step*, else the first.
    """
    found: list[DumpIndex] = []
    names = [name for name in listing.files if name.endswith(JSON)]
    names = [name for name in names if is_results(listing.folder / name)]
    numbers = {number: name for name in names if (number := iteration_of(name)) is not None}
    if step is not None and numbers and step not in numbers:
        there = ", ".join(map(str, sorted(numbers)))
        raise InputError(f"no iteration {step}, there are {there}", where=str(listing.folder))
    taken = min(numbers, default=None) if step is None else step
    for name in names:
        path = listing.folder / name
        number = iteration_of(name)
        if number != taken and number is not None:
            continue
        try:
            one = scan_polygraphy(path, graph, step if number is None else None)
        except DamagedError as damage:
            problem = DumpProblem(path, None, None, None, damage.reason, damage.detail)
            found.append(DumpIndex(problems=(problem,), files=1))
            continue
        if number is not None and len(numbers) > 1:
            told = f"iteration {number}, one of {len(numbers)} (--step)"
            one = replace(one, notes=(*one.notes, told))
        found.append(one)
    return found
