"""How much memory a process and all that it started hold, on Linux."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

_PROCESSES = Path("/proc")
_HELD = re.compile(r"^Rss(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_PARENT = 1
"""Of the words behind a process's name in its ``stat``."""


def process_memory(pid: int) -> int:
    """Bytes that process *pid* and those it started, and they started, hold themselves: what they
    read of files does not count. 0 where the system does not say."""
    if not _PROCESSES.is_dir():
        return 0
    started: dict[int, list[int]] = defaultdict(list)
    for folder in _PROCESSES.iterdir():
        if folder.name.isdecimal():
            started[_parent(folder)].append(int(folder.name))
    waiting, memory = [pid], 0
    while waiting:
        process = waiting.pop()
        memory += _held_by(_PROCESSES / str(process))
        waiting += started.pop(process, ())
    return memory


def _parent(process: Path) -> int:
    try:
        text = (process / "stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[_PARENT])
    except (OSError, LookupError, ValueError):  # it has just ended
        return -1


def _held_by(process: Path) -> int:
    try:
        return 1024 * sum(map(int, _HELD.findall((process / "status").read_text())))
    except OSError:  # it has just ended
        return 0
