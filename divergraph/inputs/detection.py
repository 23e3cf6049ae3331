"""What a path holds: graphs and dumps, how sure that is, and what says so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from divergraph.inputs.data_folder import DataFolder, data_folder
from graphstore.errors import DivergraphError
from importers.contract import Confidence
from importers.dumps.contract import FoundDump
from importers.dumps.detect import detect_bare_files, detect_tensor_file, list_dumps
from importers.dumps.folder import is_dump_name
from importers.registry import detect, unknown
from importers.source import read_head

_MOST_FILES = 500
"""Files of a folder that are looked into; a folder of models has fewer."""


@dataclass(frozen=True, slots=True)
class FoundGraph:
    """A graph at ``path`` as the format ``format`` (``reads`` in words) would be read."""

    path: Path
    format: str
    reads: str
    confidence: Confidence
    reason: str


@dataclass(frozen=True, slots=True)
class Formats:
    """What can be read: formats of graphs and kinds of dumps, each with a phrase."""

    graphs: Mapping[str, str]
    dumps: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is at ``path``. With neither graphs nor dumps, ``problem`` says what it is instead.

    ``passed_over`` files of the folder were not looked into. ``data_folder`` has the parts of a
    folder laid out as precision_tool's.
    """

    path: Path
    graphs: tuple[FoundGraph, ...]
    dumps: tuple[FoundDump, ...]
    problem: str = ""
    passed_over: int = 0
    data_folder: DataFolder | None = None


def find_out(path: Path) -> Findings:
    """The graphs and dumps at *path*; of a folder also those in the files right in it.

    Dumps are listed at any depth, as ``list_dumps`` does. Nothing is read but heads of files.
    """
    try:
        head = read_head(path)
    except DivergraphError as error:
        return Findings(path, (), (), str(error))
    graphs = list(_graphs(path))
    passed_over = 0
    if path.is_dir():
        files = _files(path)
        passed_over = max(0, len(files) - _MOST_FILES)
        for file in files[:_MOST_FILES]:
            graphs += _graphs(file)
    dumps = list_dumps(path)
    if not (graphs or dumps) and path.is_file():
        tensors = detect_tensor_file(path)
        dumps = () if tensors is None else (tensors,)
    elif path.is_dir():
        dumps = (*dumps, *detect_bare_files(path))
    laid_out = data_folder(path) if path.is_dir() else None
    problem = "" if graphs or dumps or laid_out else str(unknown(path, head))
    return Findings(path, tuple(graphs), dumps, problem, passed_over, laid_out)


def _graphs(path: Path) -> Iterator[FoundGraph]:
    try:
        detections = detect(path)
    except DivergraphError:
        return  # one unreadable file of a folder says nothing about the others
    for importer, detection in detections:
        yield FoundGraph(
            path, importer.name, importer.reads, detection.confidence, detection.reason
        )


def _files(folder: Path) -> list[Path]:
    """The regular files of a folder that are not named as dumps are, by name."""
    with os.scandir(folder) as entries:
        names = [
            entry.name for entry in entries if entry.is_file() and not is_dump_name(entry.name)
        ]
    return [folder / name for name in sorted(names)]
