"""One dump, whatever kinds of files it is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from graphstore.errors import ImportFormatError
from graphstore.model import ModelGraph
from importers.dumps.arrays.golden import golden_ending, scan_golden_listing
from importers.dumps.arrays.polygraphy import JSON, is_results, scan_polygraphy
from importers.dumps.arrays.tfdbg import device_folders, scan_tfdbg
from importers.dumps.ascend.index import scan_device_listing
from importers.dumps.index import (
    DamagedError,
    DumpIndex,
    DumpProblem,
    FolderListing,
    list_folder,
    merged,
)
from importers.dumps.msprobe.index import DUMP, scan_msprobe


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
    if DUMP in listing.files:
        return _whole(path / DUMP, lambda: scan_msprobe(path, graph))
    parts = [scan_device_listing(listing, graph)]
    if any(golden_ending(name) for name in (*listing.files, *listing.others)):
        parts.append(scan_golden_listing(listing, graph))
    parts += _results(listing, graph, step)
    return parts[0] if len(parts) == 1 else merged(parts)


def _whole(path: Path, scan: Callable[[], DumpIndex]) -> DumpIndex:
    try:
        return scan()
    except DamagedError as damage:
        raise ImportFormatError(path, damage.detail) from damage


def _results(listing: FolderListing, graph: ModelGraph, step: int | None) -> list[DumpIndex]:
    """Polygraphy's JSON files in a folder; a damaged one is a problem of its own."""
    found: list[DumpIndex] = []
    for name in listing.files:
        path = listing.folder / name
        if not name.endswith(JSON) or not is_results(path):
            continue
        try:
            found.append(scan_polygraphy(path, graph, step))
        except DamagedError as damage:
            problem = DumpProblem(path, None, None, None, damage.reason, damage.detail)
            found.append(DumpIndex(problems=(problem,), files=1))
    return found
