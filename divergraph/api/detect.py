"""What files and folders are."""

from __future__ import annotations

from pathlib import Path

from divergraph.api.arguments import AnyPath
from divergraph.api.rows import Rows
from divergraph.inputs import fitting_pairs as pairs
from divergraph.inputs.detection import Findings, Formats, find_out
from graphstore.errors import InputError
from importers.dumps.contract import FoundDump
from importers.dumps.detect import detect_bare_files
from importers.dumps.detect import list_dumps as listed
from importers.dumps.readers import installed as dump_readers
from importers.folder_hints import folder_hint
from importers.registry import installed


def detect(path: AnyPath) -> Findings:
    """The graphs and dumps at *path*, with confidence and reason; file names decide nothing.

    >>> import divergraph as dg
    >>> [graph.format for graph in dg.detect(dg.demo_data().golden).graphs]
    ['tf_meta']
    """
    return find_out(Path(path))


def formats() -> Formats:
    """Everything that can be read here, plug-ins' formats too.

    >>> from divergraph.api.detect import formats
    >>> formats().graphs["onnx"]
    'ONNX .onnx'
    """
    return Formats(
        {importer.name: importer.reads for importer in installed()},
        {reader.name: reader.reads for reader in dump_readers()},
    )


def list_dumps(path: AnyPath) -> Rows[FoundDump]:
    """Every dump at or below a folder, with its time, rank, model and step.

    Raises:
        InputError: there is no such folder.

    >>> import divergraph as dg
    >>> [dump.path.name for dump in dg.list_dumps(dg.demo_data().golden_dump)]
    ['golden']
    """
    return Rows(FoundDump, listed(Path(path)))


def no_dumps(path: Path) -> InputError:
    """What to say where none are."""
    bare = detect_bare_files(path) if path.is_dir() else ()
    reason = bare[0].reason if bare else "docs/reference/dumps.md lists every kind"
    hint = folder_hint(path) or reason
    return InputError("no dump files here or below", where=str(path), hint=hint)


def fitting_pairs(folder: AnyPath, seconds: float = pairs.SECONDS) -> pairs.FittingPairs:
    """Graphs and dumps below *folder* that fit together as the two sides of a comparison.

    One looks for about so many *seconds*.

    Raises:
        InputError: there is no such folder.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError("no such folder", where=str(path))
    return pairs.fitting_pairs(path, seconds)
