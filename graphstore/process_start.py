"""What tells a process from a later one of the same number."""

from __future__ import annotations

from pathlib import Path


def process_start(process: int) -> str | None:
    """When a process began, in the system's ticks; None if there is none or it is dead."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
