"""What kinds of dumps a path holds, which runs, ranks and steps of them, and their tensors.

Every answer is that of the installed readers (:mod:`importers.dumps.contract`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.archives import packed_note
from importers.contract import Confidence
from importers.dumps.contract import ANY_DUMP, DumpChoice, DumpReader, FoundDump
from importers.dumps.folder import dump_leaves
from importers.dumps.index import DamagedError, DumpIndex, FolderListing, list_folder, merged
from importers.dumps.readers import installed, owner_of, reader_named, reader_of, readers_in


def detect_dumps(path: Path) -> tuple[FoundDump, ...]:
    """The kinds of dumps directly at *path*, a folder or a file; the surest first.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    if path.is_file():
        reader = reader_of(path)
        is_file_reader = reader is not None and reader.whole_file and not reader.diff_only
        dumps = list(reader.detect(_alone(path))) if reader is not None and is_file_reader else []
        return tuple(replace(dump, path=path) for dump in dumps)
    listing = list_folder(path)
    dumps = [dump for reader in readers_in(listing) for dump in reader.detect(listing)]
    return tuple(sorted(dumps, key=lambda dump: (-dump.confidence, -dump.files)))


def _alone(path: Path) -> FolderListing:
    """A file as if there was no other in its folder."""
    return FolderListing(path.parent, (path.name,), {})


def list_dumps(root: Path) -> tuple[FoundDump, ...]:
    """Every dump at or below *root* with its time, rank, model and step.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    if root.is_file():
        return tuple(part for dump in detect_dumps(root) for part in _parts(dump))
    return tuple(
        replace(
            part,
            time=leaf.time,
            rank=part.rank or (leaf.device if leaf.device.isdecimal() else ""),
            model=leaf.model,
            model_id=leaf.model_id,
            step=leaf.step or part.step,
        )
        for leaf in dump_leaves(root)
        for dump in detect_dumps(leaf.path)
        for part in (_parts(dump) if dump.path.is_dir() else (dump,))
    )


def _parts(dump: FoundDump) -> Iterator[FoundDump]:
    reader = reader_named(dump.kind)
    return iter((dump,)) if reader is None else reader.parts(dump)


def inner_levels(dumps: Iterable[FoundDump]) -> frozenset[str]:
    """Which of ``rank`` and ``step`` are told apart inside of any of *dumps*."""
    readers = (reader_named(dump.kind) for dump in dumps)
    return frozenset[str]().union(*(reader.inner_levels for reader in readers if reader))


def packed_notes(dumps: Iterable[FoundDump]) -> Iterator[tuple[Path, str]]:
    """The folders of *dumps* with archives beside the files that are read, and what to do."""
    for place in dict.fromkeys(dump.path for dump in dumps):
        if note := packed_note(place):
            yield place, note


def detect_tensor_file(path: Path) -> FoundDump | None:
    """What a single dump file holds by itself; None for any other file.

    Comparing runs takes its folder; ``diff`` compares single files.
    """
    reader = reader_of(path)
    if reader is None:
        return None
    try:
        proof = reader.proof(path)
    except DamagedError:
        return None
    return FoundDump(path, reader.name, Confidence.SURE, f"{path.name} {proof}", 1)


def detect_bare_files(folder: Path) -> tuple[FoundDump, ...]:
    """Files right in *folder* that only ``diff`` reads, as they name no ops of a graph.

    Raises:
        InputError: the folder is missing or may not be read.
    """
    listing = list_folder(folder)
    names = {name for reader in readers_in(listing) for name in reader.files_in(listing)}
    rest = replace(listing, files=tuple(name for name in listing.files if name not in names))
    readers = [reader for reader in installed() if reader.diff_only]
    return tuple(dump for reader in readers for dump in reader.detect(rest))


def scan_dumps(path: Path, graph: ModelGraph, choice: DumpChoice = ANY_DUMP) -> DumpIndex:
    """The tensors of the dump at *path*, by op of *graph*.

    *path* is a folder that directly holds dump files of any kind, or a file that is a whole dump.
    Of several ranks and steps inside of it those of the *choice* are taken. A tensor found in
    several files counts by its later timestamp, values before statistics.

    Raises:
        ImportFormatError: the one file that describes the whole dump is damaged.
        InputError: the folder is missing or may not be read, or there is no such rank or step.
    """
    if path.is_file():
        reader = reader_of(path)
        index = DumpIndex() if reader is None else _scanned(reader, _alone(path), graph, choice)
        for problem in index.problems:
            if problem.op is None and not index.tensors:
                raise ImportFormatError(path, problem.detail)
        return index
    listing = list_folder(path)
    if (owner := owner_of(listing)) is not None:
        return _scanned(owner, listing, graph, choice)
    index = merged(reader.scan(listing, graph, choice) for reader in readers_in(listing))
    note = packed_note(path)
    return replace(index, notes=(*index.notes, note)) if note else index


def _scanned(
    reader: DumpReader, listing: FolderListing, graph: ModelGraph, choice: DumpChoice
) -> DumpIndex:
    """What one reader finds; damage of what describes the whole dump is an error."""
    try:
        return reader.scan(listing, graph, choice)
    except DamagedError as damage:
        described = next(iter(reader.files_in(listing)), "")
        raise ImportFormatError(listing.folder / described, damage.detail) from damage
