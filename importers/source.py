"""Open graph files so that whatever is wrong with one ends as one clear error."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Literal

from graphstore.errors import ImportFormatError
from importers.contract import HEAD_BYTES

_HASHED_AT_ONCE = 1 << 24


def read_head(path: Path) -> bytes:
    """The first bytes of a file, empty for a folder.

    Raises:
        ImportFormatError: missing, empty, not readable, or no regular file.
    """
    with _told_errors(path):
        if path.is_dir():
            next(path.iterdir(), None)
            return b""
        if path.exists() and not path.is_file():
            raise ImportFormatError(path, "is neither a file nor a folder")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    if not head:
        raise _empty(path)
    return head


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """The bytes of a file, mapped: they take no memory of their own.

    Raises:
        ImportFormatError: missing, empty or not readable.
    """
    with _told_errors(path):
        file = path.open("rb")
    with file:
        try:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise _empty(path) from None
        except OSError as error:
            raise ImportFormatError(path, _reason(error)) from error
        with buffer:
            yield buffer


def read_whole(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        ImportFormatError: missing, empty or not readable.
    """
    with _told_errors(path):
        data = path.read_bytes()
    if not data:
        raise _empty(path)
    return data


def sha256(data: bytes | mmap.mmap) -> str:
    """Hexadecimal SHA-256 of *data*; pages of a mapped file are let go as they are read."""
    digest = hashlib.sha256()
    with memoryview(data) as view:
        for start in range(0, len(view), _HASHED_AT_ONCE):
            digest.update(view[start : start + _HASHED_AT_ONCE])
            if isinstance(data, mmap.mmap) and len(view) > _HASHED_AT_ONCE:
                length = min(_HASHED_AT_ONCE, len(view) - start)
                advise(data, "DONTNEED", start, length)
    return digest.hexdigest()


@contextmanager
def _told_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ImportFormatError(path, "no such file or folder") from error
    except PermissionError as error:
        what = "it may not be read (permission denied)"
        raise ImportFormatError(path, what, hint="give yourself read access to it") from error
    except OSError as error:
        raise ImportFormatError(path, _reason(error)) from error
    except ValueError as error:  # a name with a zero byte in it
        raise ImportFormatError(str(path), f"not a usable path: {error}") from error


def _reason(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _empty(path: Path) -> ImportFormatError:
    return ImportFormatError(path, "the file is empty", hint="write it again")


# Parts of files by their place, on every system.


_PLACE = Lock()
"""Who reads where a descriptor has no place of its own for each thread."""


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """At most *count* bytes from *offset* on; threads may read of one descriptor at once."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, offset)
    with _PLACE:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, count)


class UnnamedFile(mmap.mmap):
    """A mapping of a temporary file that has no name: no other process can open a part of it."""


def advise(
    mapping: mmap.mmap, use: Literal["DONTNEED", "SEQUENTIAL"], start: int = 0, length: int = 0
) -> None:
    """Tell the system how a part of *mapping* (all of it: no *length*) is used, if it listens."""
    if hasattr(mapping, "madvise"):
        mapping.madvise(getattr(mmap, f"MADV_{use}"), start, length or len(mapping) - start)
