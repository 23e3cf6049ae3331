"""Which files some process has open to write them, as far as this system tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")
_WRITES = os.O_WRONLY | os.O_RDWR


def is_being_written(folder: Path) -> bool:
    """True if a process that this user may look at has a file at or below *folder* open to write.

    False where the system does not tell: only Linux does.
    """
    home = os.path.realpath(folder)
    return any(path == home or path.startswith(home + os.sep) for path in _written())


def _written() -> Iterator[str]:
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it ended, or belongs to somebody else
            for handle in (process / "fd").iterdir():
                with suppress(OSError, ValueError):
                    path = str(handle.readlink())
                    if path.startswith(os.sep) and _may_write(process / "fdinfo" / handle.name):
                        yield path


def _may_write(facts: Path) -> bool:
    """Whether the open file that *facts* tells of may be written through."""
    for line in facts.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return bool(int(value.strip(), 8) & _WRITES)
    return False
