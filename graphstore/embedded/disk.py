"""Steps on the file system that survive a kill: synced files, one process at a time, drafts."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from graphstore.errors import StoreError


class DamagedStoreError(StoreError):
    """A file of a store is not what was written."""


_CHECKSUM = "checksum"
"""The last key of a file: the hash of all bytes before it."""
_MARK = f',\n "{_CHECKSUM}": "'
_PIECE = 2**20
SET_ASIDE = "`divergraph store repair --set-aside` moves it out of the way"


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write *value* to a new file, down to the disk, for :func:`read_json`."""
    body = json.dumps(value, indent=1).removesuffix("\n}")
    with path.open("w", encoding="ascii") as file:
        file.write(f'{body}{_MARK}{_hash(body.encode())}"\n}}\n')
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> dict[str, Any]:
    """What :func:`write_json` wrote.

    Raises:
        StoreError: the file cannot be read.
        DamagedStoreError: it says something else by now.
    """
    with os_errors("read", path):
        text = path.read_bytes()
    damaged = f"the store is damaged here; {SET_ASIDE}"
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DamagedStoreError(f"is not JSON: {error}", where=str(path), hint=damaged) from error
    if not isinstance(value, dict):
        raise DamagedStoreError("is not a JSON object", where=str(path), hint=damaged)
    body, _, _ = text.rpartition(_MARK.encode())
    if _CHECKSUM in value and value.pop(_CHECKSUM) != _hash(body):  # earlier ones have none
        raise DamagedStoreError("does not say what was written", where=str(path), hint=damaged)
    return value


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def file_facts(path: Path, *, quickly: bool = False) -> dict[str, object]:
    """What :func:`is_as_written` holds a file against: its length and SHA-256; or, *quickly*, the
    CRC-32, of what can be made again."""
    checksum = {"crc32": _crc32(path)} if quickly else {"sha256": _sha256(path)}
    return {"bytes": path.stat().st_size, **checksum}


def is_as_written(path: Path, facts: Mapping[str, object]) -> bool:
    """True if a file is, byte for byte, the one that *facts* are of.

    It is read once more only if the system says that somebody touched it since, or after
    :func:`forget_read`.
    """
    with os_errors("read", path):
        try:
            status = path.stat()
            if status.st_size != facts.get("bytes"):
                return False
            times = (status.st_mtime_ns, status.st_ctime_ns)
            written = (facts.get("crc32"), facts.get("sha256"))
            key = (status.st_dev, status.st_ino, *times, status.st_size, *written)
            if key not in _READ:
                is_quick = "crc32" in facts
                checksum = _crc32(path) if is_quick else _sha256(path)
                _READ[key] = checksum == facts.get("crc32" if is_quick else "sha256")
            return _READ[key]
        except (FileNotFoundError, NotADirectoryError):
            return False


_READ: dict[tuple[object, ...], bool] = {}
"""Whether files that this process has read whole were right, by all that shows a change.

Not kept on the disk: what a disk loses by itself changes no times, and the next process finds it.
"""


def forget_read() -> None:
    """Have every file read anew."""
    _READ.clear()


def _sha256(path: Path) -> str:
    """1 to 2 GB a second where the processor helps."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _crc32(path: Path) -> int:
    """4 GB a second."""
    checksum, piece = 0, bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        while length := file.readinto(piece):
            checksum = crc32(memoryview(piece)[:length], checksum)
    return checksum


def sync(path: Path) -> None:
    """Have what was written to a file, or the names in a folder, down on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # only POSIX systems can sync a folder
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def alone(folder: Path) -> AbstractContextManager[None]:
    """No other process is in such a block for *folder*; where the system can do that."""
    return _locked(folder, wait=True)


def marked_alive(folder: Path) -> AbstractContextManager[None]:
    """While this process is in the block, :func:`is_marked_alive` is true of *folder*."""
    return _locked(folder, wait=False)


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # not a POSIX system: renames keep entries whole there
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system without locks must do, too: renames keep entries whole there.
        with suppress(OSError):
            # the lock ends with the handle, however the process ends
            flock(handle, LOCK_EX if wait else LOCK_EX | LOCK_NB)
        yield
    finally:
        os.close(handle)


def is_marked_alive(path: Path) -> bool:
    """True if a living process is in :func:`marked_alive` for *path*; False if unknown."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return False
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        flock(handle, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


@contextmanager
def os_errors(what: str, path: Path) -> Iterator[None]:
    """Turn what the system says against *what* (a verb) into a StoreError about *path*."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"cannot {what} the store: {reason}", where=str(path)) from error


# A draft's name starts with ``.writing-`` and says the host and process that made it. A
# living writer also holds a lock on it, so a process number that was given out again, or
# another container of the same host name, deceives nobody.

_WRITING = ".writing-"
_STALE_SECONDS = 24 * 3600.0


def draft_path(root: Path) -> Path:
    """A new name in *root* that says whose draft it is."""
    return root / f"{_WRITING}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def draft_folder(root: Path) -> Iterator[Path]:
    """A fresh folder in *root*, this process's own; gone afterwards, come what may."""
    folder = draft_path(root)
    with ExitStack() as stack:
        with alone(root):
            folder.mkdir()
            stack.enter_context(marked_alive(folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def abandoned_drafts(root: Path) -> list[Path]:
    """The drafts whose writer is gone; of other hosts, those older than a day."""
    return sorted(path for path in root.glob(f"{_WRITING}*") if _is_abandoned(path))


def remove_draft(path: Path) -> None:
    """Delete a draft that is nobody's any more."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # The engine's process outlives a killed writer for a moment; it finds no folder to write to
    # once that has another name.
    with suppress(OSError):
        path = path.rename(draft_path(path.parent))
    shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    if is_marked_alive(path):
        return False
    host, _, number = path.name.removeprefix(_WRITING).rpartition("-")[0].rpartition("-")
    if host == socket.gethostname() and number.isdecimal() and not _is_process(int(number)):
        return True
    try:
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except FileNotFoundError:
        return False


def _is_process(number: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
