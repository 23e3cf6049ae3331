"""Parts of files by their place, on every system."""

from __future__ import annotations

import mmap
import os
from threading import Lock
from typing import Literal

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
