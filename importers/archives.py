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
        return _hint(path, _packed(path))
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


def packed_note(folder: Path) -> str:
    """How many of the files in *folder* are archives, which nobody reads; empty for none."""
    try:
        archives = _packed(folder) if folder.is_dir() else []
        if not archives:
            return ""
        count = sum(1 for path in folder.iterdir() if path.is_file())
        are = "is an archive" if len(archives) == 1 else "are archives"
        files = "1 file" if count == 1 else f"{count} files"
        return f"{len(archives)} of {files} {are}, not read ({_hint(folder, archives)})"
    except (ImportFormatError, OSError):
        return ""  # what is wrong with it is said by who reads it


def _hint(path: Path, archives: list[Path]) -> str:
    """What to do first with *path*, in which *archives* are, or which is one."""
    if len(archives) > 1:
        return f"unpack them first: {_unpacking_all(path, archives)}"
    return f"unpack it first: {unpacking(archives[0], read_head(archives[0]))}" if archives else ""


def _packed(path: Path) -> list[Path]:
    """*path*, or the files in it that are called as its first archive is, and not unpacked yet."""
    if not path.is_dir():
        return [path] if path.is_file() and _is_packed(path) else []
    there = {path.name for path in path.iterdir()}
    archives = [name for name in there if name.lower().endswith(_ENDINGS)]
    named = sorted(
        path / name for name in archives if not there & {Path(name).stem, _stem(name)} - {name}
    )
    tried = islice((path for path in named if path.is_file()), _MOST_FILES)
    first = next((path for path in tried if _is_packed(path)), None)
    if first is None:
        return []
    return [path for path in named if path.suffix == first.suffix and path.is_file()]


def _unpacking_all(folder: Path, archives: list[Path]) -> str:
    """The command that unpacks *archives*, which lie in *folder* and are alike."""
    head = read_head(archives[0])
    name = archive_name(head)
    kind = next((kind for kind in _KINDS if kind.name == name), None)
    if kind is None or _holds_tar(archives[0], head, kind):
        return f"{unpacking(archives[0], head)}, and so on"
    # not a pattern of the shell's: thousands of names are too long a command
    pattern = shlex.quote(f"*{archives[0].suffix}")
    return f"find {shlex.quote(str(folder))} -name {pattern} -exec {kind.program} {{}} +"


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
