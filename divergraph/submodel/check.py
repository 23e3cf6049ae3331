"""Whether an exported part gives the golden outputs again: its own replay program says."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 600


@dataclass(frozen=True, slots=True)
class PartCheck:
    """``passed`` is None where the part cannot be run here; ``lines`` say how it went."""

    passed: bool | None
    lines: tuple[str, ...]


def check_bundle(folder: Path, seconds: float = _SECONDS) -> PartCheck:
    """Run the bundle's ``replay.py`` as whoever gets it would.

    A part of a TensorFlow model that reaches outside of the model is not run.
    """
    refused = _refused(folder)
    if refused:
        return PartCheck(None, (refused,))
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
        return PartCheck(None, (f"it did not end within {seconds:g} s",))
    lines = tuple(line for line in (done.stdout + done.stderr).splitlines() if line.strip())
    passed = {0: True, 1: False}.get(done.returncode)
    return PartCheck(passed, lines[-20:])


def _refused(folder: Path) -> str:
    """Why the part is not run here; empty if it is, or if its own program will say why not."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if manifest["runner"] != "tf":
        return ""
    from divergraph.execute.tensorflow.files import tensorflow
    from divergraph.execute.tensorflow_outside import keep_inside

    try:
        whole = tensorflow().compat.v1.GraphDef
    except ImportError:
        return ""
    definition = whole.FromString((folder / manifest["files"][0]).read_bytes())
    inside = whole.FromString(definition.SerializeToString())
    said = keep_inside(inside, ())
    if said:
        return next(iter(said.values()))
    return "" if inside == definition else "an op of it prints or writes: it is not run"
