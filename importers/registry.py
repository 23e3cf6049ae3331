"""Find the importer for a file by its content, among all that are installed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from graphstore.errors import ImportFormatError, InputError
from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from importers.contract import (
    ENTRY_POINT_GROUP,
    Confidence,
    Detection,
    Importer,
    OptionImporter,
)
from importers.sniff import foreign
from importers.source import read_head

_LOG = logging.getLogger(__name__)
_GRAPH_ENDINGS = frozenset(
    (
        *(".om", ".onnx", ".pb", ".pbtxt", ".meta", ".txt"),
        *(".caffemodel", ".onnxtxt", ".prototxt", ".textproto"),
    )
)


def read_graph(path: Path | str, options: Mapping[str, str] | None = None) -> ModelGraph:
    """The graph in a file, or in a SavedModel or GE dump folder, whatever its format.

    *options* are for the format's importer (see its ``options``), such as ``weights`` for a
    Caffe net.

    Raises:
        ImportFormatError: missing, not readable, of no known format, or damaged.
        InputError: the format has no such option, or the option no such value.
    """
    path = Path(path)
    head = read_head(path)
    importers = installed()
    found = [(_detection(importer, path, head).confidence, importer) for importer in importers]
    best = max((confidence for confidence, _ in found), default=Confidence.NO)
    if best is Confidence.NO:
        raise unknown(path, head)
    failure: ImportFormatError | None = None
    for confidence, importer in found:
        if confidence is best:
            try:
                # a graph is values that all stay alive; importers need not think of it
                with gc_paused():
                    return _read(importer, path, options or {})
            except ImportFormatError as error:
                failure = failure or error
    raise failure or unknown(path, head)


def _read(importer: Importer, path: Path, options: Mapping[str, str]) -> ModelGraph:
    if not options:
        return importer.read(path)
    known = importer.options if isinstance(importer, OptionImporter) else {}
    unknown = sorted(options.keys() - known.keys())
    if unknown or not isinstance(importer, OptionImporter):
        hint = f"it takes {', '.join(known)}" if known else "read it without options"
        what = f"{importer.reads} is read without the option {unknown[0]!r}"
        raise InputError(what, where=str(path), hint=hint)
    return importer.read_with(path, options)


def detect(path: Path | str) -> list[tuple[Importer, Detection]]:
    """Who could read *path* and why, the surest first; empty where nobody can.

    Raises:
        ImportFormatError: missing, empty or not readable.
    """
    path = Path(path)
    head = read_head(path)
    found = [(importer, _detection(importer, path, head)) for importer in installed()]
    able = [each for each in found if each[1].confidence is not Confidence.NO]
    return sorted(able, key=lambda each: -each[1].confidence)


@cache
def installed() -> tuple[Importer, ...]:
    """All importers that can be loaded, by name; those that cannot are logged.

    Raises:
        InputError: not a single one is installed.
    """
    found = [_load(entry) for entry in sorted(entry_points(group=ENTRY_POINT_GROUP))]
    importers = tuple(importer for importer in found if importer is not None)
    if not importers:
        raise InputError("no importer is installed", hint="install divergraph again")
    return importers


def _load(entry: EntryPoint) -> Importer | None:
    try:
        loaded = entry.load()
        importer: Importer = loaded() if isinstance(loaded, type) else loaded
        complete = all(hasattr(importer, name) for name in ("name", "reads", "detect", "read"))
    except Exception as error:  # noqa: BLE001 - someone else's code: whatever it raises
        _LOG.warning("importer %s (%s) cannot be loaded: %s", entry.name, entry.value, error)
        return None
    if not complete:
        _LOG.warning("importer %s (%s) is not complete, left out", entry.name, entry.value)
        return None
    return importer


def _detection(importer: Importer, path: Path, head: bytes) -> Detection:
    try:
        found = importer.detect(path, head)
    except Exception as error:  # noqa: BLE001 - one importer must not stop the others
        _LOG.warning("importer %s failed to look at %s: %s", importer.name, path, error)
        return Detection(Confidence.NO, f"it failed: {error}")
    if isinstance(found, Detection):
        return found
    return Detection(found, f"it looks like {importer.reads}" if found else "")


def unknown(path: Path, head: bytes) -> ImportFormatError:
    """What to say of a *path*, starting with *head*, that no importer can read."""
    reads = "can be read: " + ", ".join(importer.reads for importer in installed())
    if path.is_dir():
        return _unknown_folder(path, reads)
    name, hint = foreign(path, head)
    if name:
        return ImportFormatError(path, f"this is {name}, not a graph", hint=hint or reads)
    return ImportFormatError(path, "not a graph in a known format", offset=0, hint=reads)


def _unknown_folder(path: Path, reads: str) -> ImportFormatError:
    names = sorted(child.name for child in path.iterdir())
    if not names:
        return ImportFormatError(path, "the folder is empty", hint=reads)
    graphs = [name for name in names if Path(name).suffix in _GRAPH_ENDINGS]
    hint = f"give one file, such as {', '.join(graphs[:3])}" if graphs else reads
    return ImportFormatError(path, "no graph of its own in this folder", hint=hint)
