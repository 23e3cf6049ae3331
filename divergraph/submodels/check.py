"""Whether an exported part gives the golden outputs again: its own replay program says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Check:
    """``passed`` is None where the part cannot be run here; ``lines`` say how it went."""

    passed: bool | None
    lines: tuple[str, ...]


def check_bundle(folder: Path, seconds: float = _SECONDS) -> Check:
    """Run the bundle's ``replay.py`` as whoever gets it would."""
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-I", str(folder.resolve() / "replay.py")],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check(None, (f"it did not end within {seconds:g} s",))
    lines = tuple(line for line in (done.stdout + done.stderr).splitlines() if line.strip())
    passed = {0: True, 1: False}.get(done.returncode)
    return Check(passed, lines[-20:])
