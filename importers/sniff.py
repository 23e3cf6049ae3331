"""Tell what a file is from its first bytes: names of foreign formats."""

from __future__ import annotations

from pathlib import Path

from importers import fusion_result
from importers.contract import Confidence
from importers.prototext import outline

_MAGIC: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n", 0, "a PNG picture"),
    (b"\xff\xd8\xff", 0, "a JPEG picture"),
    (b"GIF8", 0, "a GIF picture"),
    (b"BM", 0, "a BMP picture"),
    (b"II*\x00", 0, "a TIFF picture"),
    (b"MM\x00*", 0, "a TIFF picture"),
    (b"WEBP", 8, "a WebP picture"),
    (b"%PDF", 0, "a PDF document"),
    (b"PK\x03\x04", 0, "a zip archive (or a model saved as one)"),
    (b"PK\x05\x06", 0, "an empty zip archive"),
    (b"\x1f\x8b", 0, "a gzip archive"),
    (b"BZh", 0, "a bzip2 archive"),
    (b"\xfd7zXZ\x00", 0, "an xz archive"),
    (b"\x28\xb5\x2f\xfd", 0, "a zstd archive"),
    (b"7z\xbc\xaf", 0, "a 7z archive"),
    (b"ustar", 257, "a tar archive"),
    (b"\x7fELF", 0, "an ELF program or library"),
    (b"MZ", 0, "a Windows program"),
    (b"\x89HDF\r\n", 0, "an HDF5 file (Keras keeps models so)"),
    (b"SQLite format 3\x00", 0, "an SQLite database"),
    (b"\x93NUMPY", 0, "a numpy array"),
    (b"\x80\x02", 0, "a Python pickle"),
    (b"\x80\x04", 0, "a Python pickle"),
    (b"TFL3", 4, "a TensorFlow Lite model"),
)
_FUSION_RESULT = "the compiler's list of fusion passes"
_HINTS = {
    _FUSION_RESULT: "give the graph; a fusion_result.json beside it is read along",
    "a text ONNX model": "save it as a binary .onnx",
    "a Git LFS pointer": "fetch the file itself with `git lfs pull`",
    "a TensorFlow Lite model": "give the GraphDef or SavedModel it was converted from",
    "a TensorFlow checkpoint's values": "give the .meta beside it",
    "a TensorFlow checkpoint's list": "give the .meta beside it",
}


def foreign(path: Path, head: bytes) -> tuple[str, str]:
    """The name of a known format that is no readable graph, and a hint; empty if unknown."""
    name = _foreign_name(path, head)
    return name, _HINTS.get(name, "")


def _foreign_name(path: Path, head: bytes) -> str:
    for magic, at, name in _MAGIC:
        if head.startswith(magic, at) and (len(magic) > 2 or b"\x00" in head):
            return name
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer"
    if ".data-0" in path.name:
        return "a TensorFlow checkpoint's values"
    if head.startswith(b"model_checkpoint_path:"):
        return "a TensorFlow checkpoint's list"
    stripped = head.lstrip()
    if stripped[:1] == b"<":
        return "an XML or HTML page"
    if stripped[:1] in (b"{", b"["):
        passes = fusion_result.detect(path, head).confidence is Confidence.SURE
        return _FUSION_RESULT if passes else "a JSON text"
    return _foreign_text(outline(head))


def _foreign_text(names: set[tuple[bytes, ...]]) -> str:
    if (b"ir_version",) in names or (b"graph", b"node") in names:
        return "a text ONNX model"
    return ""
