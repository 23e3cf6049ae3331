"""How much memory a process and all that it started hold, on Linux."""

from __future__ import annotations

import re
from pathlib import Path

_PROCESSES = Path("/proc")
_HELD = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_SESSION = 3
"""Of the numbers behind a process's name in its ``stat``."""


def session_memory(session: int) -> int:
    """Bytes that the processes of a *session*, by the number of its leader, hold themselves: what
    they read of files does not count. 0 where the system does not say."""
    if not _PROCESSES.is_dir():
        return 0
    found = (_held_by(each, session) for each in _PROCESSES.iterdir() if each.name.isdecimal())
    return sum(found)


def _held_by(process: Path, session: int) -> int:
    try:
        numbers = (process / "stat").read_text(encoding="utf-8", errors="replace")
        if int(numbers.rpartition(")")[2].split()[_SESSION]) != session:
            return 0
        return 1024 * sum(map(int, _HELD.findall((process / "status").read_text())))
    except (OSError, LookupError, ValueError):  # it has just ended
        return 0
