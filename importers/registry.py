"""Find the importer for a file by its content, or say what else the file is."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from graphstore.errors import ImportFormatError, InputError
from graphstore.gc_paused import gc_paused
from graphstore.model import ModelGraph
from importers import fusion_result
from importers.archives import ZIP, archive_name, unpacking
from importers.contract import ENTRY_POINT_GROUP, Confidence, Detection, Importer, OptionImporter
from importers.folder_hints import folder_hint
from importers.proto.text_reader import outline
from importers.results.compared_graphs import is_database
from importers.results.table import ResultKind, is_json_of_graphs
from importers.results.table import kind_of as results_of
from importers.source import read_head

_PYTORCH = "a PyTorch file (.pt, .pth)"
_PICKLE = "a Python pickle"
_KERAS = "a Keras model (.keras)"
_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n", 0, "a PNG picture"),
    (b"\xff\xd8\xff", 0, "a JPEG picture"),
    (b"GIF8", 0, "a GIF picture"),
    (b"BM", 0, "a BMP picture"),
    (b"II*\x00", 0, "a TIFF picture"),
    (b"MM\x00*", 0, "a TIFF picture"),
    (b"WEBP", 8, "a WebP picture"),
    (b"%PDF", 0, "a PDF document"),
    (b"PK\x05\x06", 0, "an empty zip archive"),
    (b"\x7fELF", 0, "an ELF program or library"),
    (b"MZ", 0, "a Windows program"),
    (b"\x89HDF\r\n", 0, "an HDF5 file (Keras keeps models so)"),
    (b"ORTM", 4, "an ONNX Runtime model (.ort)"),
    (b"SQLite format 3\x00", 0, "an SQLite database"),
    (b"\x93NUMPY", 0, "a numpy array"),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", 0, _PYTORCH),  # its old form's magic number
    *((bytes((0x80, protocol)), 0, _PICKLE) for protocol in range(2, 6)),
    (b"GGUF", 0, "a GGUF file of weights"),
)
_FUSION_RESULT = "the compiler's list of fusion passes"
COMPARED_GRAPHS = "a comparison of graphs by msprobe (.vis.db, .vis)"
_MAX_JSON_HEADER = 100_000_000  # of safetensors, as its own reader has it
_SAFETENSORS = re.compile(
    rb'\{\s*(\}|"__metadata__"|"[^"]*"\s*:\s*\{\s*"(dtype|shape|data_offsets)")'
)
"""The header after its length; JSON headers of dumps begin with facts of the dump."""
_MARKUP = re.compile(rb"<[!?a-zA-Z]")
_IN_ZIPS = (
    (re.compile(rb"[^/\0]+/(?:data\.pkl|constants\.pkl|byteorder|\.format_version)"), _PYTORCH),
    (re.compile(rb"(?:config|metadata)\.json"), _KERAS),
    (re.compile(rb"[^/\0]+\.npy"), "an .npz archive of arrays"),
    (re.compile(rb"\[Content_Types\]\.xml|(?:xl|docProps|_rels)/.*"), "an .xlsx workbook"),
)
"""Names of first entries, and what the archive with them is."""
_HINTS = {
    _PYTORCH: "reading it would run code in it; export the model with torch.onnx.export",
    _PICKLE: "reading it would run code in it; if it is a model, export it to ONNX",
    _KERAS: "save the model with model.export() as a SavedModel",
    "an HDF5 file (Keras keeps models so)": "save the model with model.export() as a SavedModel",
    "a file of safetensors": "it holds weights and no graph; give the model's ONNX export",
    "a GGUF file of weights": "it holds no graph; give the model it was made from",
    "an ONNX Runtime model (.ort)": "give the .onnx it was converted from",
    **{
        f"a table of results of {kind}": "divergraph open FILE makes a run of it"
        for kind in ResultKind
    },
    "an .xlsx workbook": "divergraph open FILE makes a run of msprobe's results",
    COMPARED_GRAPHS: "divergraph open FILE makes a run of it",
    "an .npz archive of arrays": "diff compares it; it is no graph",
    "an HTML page": "the download went wrong: it is a web page, fetch the file itself",
    "a Caffe solver": "give the net it names",
    _FUSION_RESULT: "give the graph; a fusion_result.json next to it is read too",
    "a Git LFS pointer": "fetch the file itself with `git lfs pull`",
    "a TensorFlow checkpoint's values": "give the .meta next to it",
    "a TensorFlow checkpoint's list": "give the .meta next to it",
}


def foreign(path: Path, head: bytes) -> tuple[str, str]:
    """The name of a known format that is no readable graph, and a hint; empty if unknown."""
    name = _foreign_name(path, head)
    if name and name == archive_name(head):
        return name, f"unpack it first: {unpacking(path, head)}"
    return name, _HINTS.get(name, "")


def _foreign_name(path: Path, head: bytes) -> str:
    if is_database(head):
        return COMPARED_GRAPHS
    for magic, at, name in _MAGIC:
        if head.startswith(magic, at) and (len(magic) > 2 or b"\x00" in head or magic[0] == 0x80):
            return name
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer"
    if ".data-0" in path.name or (path.suffix == ".index" and b"\0" in head):
        return "a TensorFlow checkpoint's values"
    if head.startswith(b"model_checkpoint_path:"):
        return "a TensorFlow checkpoint's list"
    if archive := archive_name(head):
        return _zip_name(head) if archive == ZIP else archive
    if _SAFETENSORS.match(head, 8) and int.from_bytes(head[:8], "little") < _MAX_JSON_HEADER:
        return "a file of safetensors"
    stripped = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _MARKUP.match(stripped):
        start = stripped[:2000].lower()
        if b"<html" in start or b"<!doctype html" in start:
            return "an HTML page"
        return "an XML page"
    if stripped[:1] in (b"{", b"["):
        if is_json_of_graphs(head):
            return COMPARED_GRAPHS
        passes = fusion_result.detect(path, head).confidence is Confidence.SURE
        return _FUSION_RESULT if passes else "a JSON text"
    if (table := results_of(head)) is not None:
        return f"a table of results of {table}"
    names = outline(head)
    if (b"base_lr",) in names or (b"train_net",) in names or (b"solver_mode",) in names:
        return "a Caffe solver"
    return ""


def _zip_name(head: bytes) -> str:
    """What a zip archive is by the name of its first entry (zip: local file header)."""
    length = int.from_bytes(head[26:28], "little")
    first = head[30 : 30 + length]
    return next((name for entry, name in _IN_ZIPS if entry.fullmatch(first)), ZIP)


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
    readers = [(_detection(importer, path, head).confidence, importer) for importer in importers]
    best = max((confidence for confidence, _ in readers), default=Confidence.NO)
    if best is Confidence.NO:
        raise unknown(path, head)
    failure: ImportFormatError | None = None
    for confidence, importer in readers:
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
    options_known = importer.options if isinstance(importer, OptionImporter) else {}
    unknown = sorted(options.keys() - options_known.keys())
    if unknown or not isinstance(importer, OptionImporter):
        hint = (
            f"it takes {', '.join(options_known)}" if options_known else "read it without options"
        )
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
    detections = [(importer, _detection(importer, path, head)) for importer in installed()]
    able = [pair for pair in detections if pair[1].confidence is not Confidence.NO]
    return sorted(able, key=lambda pair: -pair[1].confidence)


@cache
def installed() -> tuple[Importer, ...]:
    """All importers that can be loaded, by name; those that cannot are logged.

    Raises:
        InputError: not a single one is installed.
    """
    loaded = [_load(entry) for entry in sorted(entry_points(group=ENTRY_POINT_GROUP))]
    importers = tuple(importer for importer in loaded if importer is not None)
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
        detection = importer.detect(path, head)
    except Exception as error:  # noqa: BLE001 - one importer must not stop the others
        _LOG.warning("importer %s failed to look at %s: %s", importer.name, path, error)
        return Detection(Confidence.NO, f"it failed: {error}")
    if isinstance(detection, Detection):
        return detection
    return Detection(detection, f"it looks like {importer.reads}" if detection else "")


def unknown(path: Path, head: bytes) -> ImportFormatError:
    """What to say of a *path*, starting with *head*, that no importer can read."""
    names = ", ".join(importer.name for importer in installed())
    reads = f"it is none of {names}: `divergraph detect --formats` says more of them"
    if path.is_dir():
        return _unknown_folder(path, reads)
    name, hint = foreign(path, head)
    if name == _FUSION_RESULT:
        hint = f"{fusion_result.summary(path)}; {hint}"
    if name:
        return ImportFormatError(path, f"this is {name}, not a graph", hint=hint or reads)
    return ImportFormatError(path, "not a graph in a known format", offset=0, hint=reads)


def _unknown_folder(path: Path, reads: str) -> ImportFormatError:
    names = sorted(child.name for child in path.iterdir())
    if not names:
        return ImportFormatError(path, "the folder is empty", hint=reads)
    graphs = [name for name in names if Path(name).suffix in _GRAPH_ENDINGS]
    hint = f"give one file, such as {', '.join(graphs[:3])}" if graphs else ""
    hint = hint or folder_hint(path) or reads
    return ImportFormatError(path, "no graph of its own in this folder", hint=hint)
