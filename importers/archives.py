"""Archives and compressed files, named with the command that unpacks them.

They are not read through: dumps are gigabytes, of which values are read here and there.
"""

from __future__ import annotations

import bz2
import lzma
import shlex
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from graphstore.errors import ImportFormatError, InputError
from importers.source import read_head

_TAR, _TAR_AT = b"ustar", 257
_INSIDE = 512
_MOST_FILES = 1000
_ENDINGS = (".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".zst", ".tzst", ".zip", ".7z")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How archives begin, what they are called, and what unpacks a single file; a tar of all of
    them goes by ``tar -xf``."""

    magic: bytes
    name: str
    program: str
    inside: Callable[[bytes], bytes] | None = None


_KINDS = (
    _Kind(
        b"\x1f\x8b\x08", "a gzip archive", "gunzip --keep",
        lambda head: zlib.decompressobj(31).decompress(head, _INSIDE),
    ),
    _Kind(
        b"BZh", "a bzip2 archive", "bunzip2 --keep",
        lambda head: bz2.BZ2Decompressor().decompress(head, _INSIDE),
    ),
    _Kind(
        b"\xfd7zXZ\x00", "an xz archive", "unxz --keep",
        lambda head: lzma.LZMADecompressor(memlimit=1 << 27).decompress(head, _INSIDE),
    ),
    _Kind(b"\x28\xb5\x2f\xfd", "a zstd archive", "unzstd"),
)  # fmt: skip
ZIP, TAR, SEVEN = "a zip archive", "a tar archive", "a 7z archive"
_OTHERS = ((b"PK\x03\x04", 0, ZIP), (_TAR, _TAR_AT, TAR), (b"7z\xbc\xaf", 0, SEVEN))


def archive_name(head: bytes) -> str:
    """What a file that starts with *head* is, if it is an archive; else empty."""
    kinds = (*((kind.magic, 0, kind.name) for kind in _KINDS), *_OTHERS)
    return next((name for magic, at, name in kinds if head.startswith(magic, at)), "")


def unpacking(path: Path, head: bytes) -> str:
    """The command that unpacks the archive *path*, which starts with *head*, beside it."""
    file = shlex.quote(str(path))
    name = archive_name(head)
    kind = next((kind for kind in _KINDS if kind.name == name), None)
    if kind is not None and not _holds_tar(path, head, kind):
        return f"{kind.program} {file}"
    folder = shlex.quote(str(path.with_name(_stem(path.name))))
    if name == ZIP:
        return f"unzip {file} -d {folder}"
    if name == SEVEN:
        return f"7z x {file} -o{folder}"
    return f"mkdir {folder} && tar -xf {file} -C {folder}"


def unpack_hint(path: Path) -> str:
    """What to do first with *path*, an archive or a folder with one; empty for others."""
    try:
        found = _packed(path)
        if found is None:
            return ""
        return f"unpack it first: {unpacking(found, read_head(found))}"
    except (ImportFormatError, OSError):
        return ""  # what is wrong with it is said by who reads it


def refuse_archive(path: Path, wanted: str) -> None:
    """Return if *path* is no archive.

    Raises:
        InputError: it is one, and not *wanted*.
    """
    hint = unpack_hint(path)
    if hint and path.is_file():
        what = f"this is {archive_name(read_head(path))}, not {wanted}"
        raise InputError(what, where=str(path), hint=hint)


def _packed(path: Path) -> Path | None:
    """*path*, or the first file in it, if that is an archive."""
    if path.is_dir():
        listed = islice(path.iterdir(), _MOST_FILES)
        return next((each for each in sorted(listed) if each.is_file() and _is_packed(each)), None)
    return path if path.is_file() and _is_packed(path) else None


def _is_packed(path: Path) -> bool:
    """Whether name and content say so: raw values and headers of dumps may begin with anything."""
    return path.suffix.lower() in _ENDINGS and bool(archive_name(read_head(path)))


def _holds_tar(path: Path, head: bytes, kind: _Kind) -> bool:
    if kind.inside is None:
        return ".tar" in path.name.lower() or path.suffix.lower() == ".tzst"
    try:
        return kind.inside(head).startswith(_TAR, _TAR_AT)
    except (zlib.error, lzma.LZMAError, OSError, EOFError):
        return False


def _stem(name: str) -> str:
    """The name without the endings of archives."""
    path = Path(name)
    while path.suffix.lower() in _ENDINGS and path.stem:
        path = Path(path.stem)
    return path.name if path.name != name else f"{name}.unpacked"
