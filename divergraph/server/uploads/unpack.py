"""Unpacks an archive within limits, or counts what it says it holds: a program of its own.

    python -I unpack.py ARCHIVE FOLDER LIMITS

Run apart, with limits of memory and time, as whoever made the archive may mean harm. LIMITS is
JSON: ``files``, ``bytes``, ``memory`` and ``seconds``. What came of it is JSON on standard output:
``{"files": …, "bytes": …}``, or ``{"refused": sentence}``. Without FOLDER (``-``) a zip is only
looked at. Needs nothing but Python's own modules.
"""

from __future__ import annotations

import errno
import json
import lzma
import stat
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any

_BLOCK = 1 << 18
_DEEPEST = 32
_LONGEST = 255
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    *(EOFError, ValueError, RuntimeError, NotImplementedError),
)


class RefusedError(Exception):
    """Why an archive is not unpacked."""


class Budget:
    """How many files and bytes may still come."""

    def __init__(self, files: int, size: int) -> None:
        self.files, self.bytes = 0, 0
        self._most_files, self._most_bytes = files, size

    def file(self) -> None:
        """One more file or folder comes."""
        self.files += 1
        if self.files > self._most_files:
            raise RefusedError(f"it holds more than {self._most_files} files")

    def take(self, size: int) -> None:
        """So many more bytes come."""
        self.bytes += size
        if self.bytes > self._most_bytes:
            raise RefusedError(f"it would unpack to more than {self._most_bytes} bytes")


def place_in(folder: Path, name: str) -> Path:
    """Where the entry *name* goes, below *folder*.

    Raises:
        RefusedError: it would lead elsewhere, or is no name for a file.
    """
    path = PurePosixPath(name)
    parts = path.parts
    is_refused = "\\" in name or "\0" in name or not name.isprintable()
    if is_refused or path.is_absolute() or ".." in parts or not parts:
        raise RefusedError(f"it holds a file called {name!r}, which is no name below a folder")
    if len(parts) > _DEEPEST or any(len(part.encode()) > _LONGEST for part in parts):
        raise RefusedError(f"it holds a file whose name is too long: {name[:80]!r}…")
    return folder.joinpath(*parts)


def unpack_zip(archive: Path, folder: Path | None, budget: Budget) -> None:
    """Unpack a zip; without *folder* only count what it says it holds."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            budget.file()
            if entry.flag_bits & 1:
                raise RefusedError("it is encrypted")
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise RefusedError(f"it holds a link or device: {entry.filename!r}")
            if folder is None:
                budget.take(entry.file_size)
            elif entry.is_dir():
                place_in(folder, entry.filename).mkdir(parents=True, exist_ok=True)
            else:
                with opened.open(entry) as source:
                    _copy(source, place_in(folder, entry.filename), budget)


def unpack_tar(archive: Path, folder: Path, budget: Budget) -> None:
    """Unpack a tar, compressed or not."""
    with _opened_tar(archive) as opened:
        for entry in opened:
            budget.file()
            if entry.size < 0:
                raise RefusedError(f"it is damaged: {entry.name!r} has {entry.size} bytes")
            if entry.isdir():
                place_in(folder, entry.name).mkdir(parents=True, exist_ok=True)
                continue
            source = opened.extractfile(entry) if entry.isreg() else None
            if source is None:
                raise RefusedError(f"it holds a link or device: {entry.name!r}")
            _copy(source, place_in(folder, entry.name), budget)


def _opened_tar(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r:*")
    except tarfile.ReadError:  # it says why for each compression, in a line of its own
        raise RefusedError("it is neither a zip nor a tar, or its beginning is damaged") from None


def _copy(source: IO[bytes], place: Path, budget: Budget) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.open("xb")
    except (FileExistsError, NotADirectoryError):
        raise RefusedError(f"it holds {place.name!r} twice") from None
    with file:
        while block := source.read(_BLOCK):
            budget.take(len(block))
            file.write(block)


def _hold(memory: int, seconds: int) -> None:
    """Let this process take no more memory and time than that."""
    import resource

    for what, wanted in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
        hard = resource.getrlimit(what)[1]
        bound = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(what, (bound, bound))


def _done(archive: Path, folder: Path | None, limits: dict[str, int]) -> dict[str, Any]:
    budget = Budget(limits["files"], limits["bytes"])
    try:
        with archive.open("rb") as file:
            is_zip = file.read(2) == b"PK"  # a tar may well end with a zip
        if is_zip:
            unpack_zip(archive, folder, budget)
        elif folder is not None:
            unpack_tar(archive, folder, budget)
    except RefusedError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"refused": "it needs too much memory"}
    except OSError as error:
        if error.errno in _DISK:
            return {"errno": error.errno}
        return {"refused": f"it is damaged: {error.strerror or error}"}
    except _DAMAGE as error:
        return {"refused": f"it is damaged: {error}"}
    if folder is not None and not budget.files:  # nothing but zeros looks like that, too
        return {"refused": "it holds no file"}
    return {"files": budget.files, "bytes": budget.bytes}


def main() -> None:
    """Do what the command line says."""
    archive, folder, text = sys.argv[1:]
    limits = json.loads(text)
    if sys.platform == "linux":  # macOS knows limits of memory and does not heed them
        _hold(limits["memory"], limits["seconds"])
    answer = _done(Path(archive), None if folder == "-" else Path(folder), limits)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
