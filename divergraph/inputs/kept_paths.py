"""Where the files of a kept run are, from whatever folder it is asked later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphstore.errors import InputError
from graphstore.model import Run

_FOLDER = "folder"


def with_folder(inputs: Mapping[str, str]) -> dict[str, str]:
    """*inputs* of a run as the user gave them, and the folder they were given in."""
    return {**inputs, _FOLDER: str(Path.cwd())}


RESULT = "result"
"""The table of another tool that a run was opened from."""

FILES = ("golden", "golden_dump", "device", "device_dump")
"""What every run was made of."""


def kept_path(run: Run, what: str) -> Path:
    """The file or folder that *run* took for *what* (``golden``, ``device_dump``, ...).

    A relative path is that of the folder ``compare`` ran in. If nothing lies there any more
    it is tried as it stands, so that a project may move with its store.

    Raises:
        InputError: the run does not say, or nothing lies there any more.
    """
    recorded = run.inputs.get(what, "")
    if not recorded:
        hint = ""
        if table := run.inputs.get(RESULT):
            hint = f"it was opened from {table}: compare the dumps themselves for that"
        raise InputError(f"run {run.name!r} does not say where its {what} was", hint=hint)
    then = Path(run.inputs.get(_FOLDER, ""), recorded)
    path = next((path for path in (then, Path(recorded)) if path.exists()), None)
    if path is None:
        raise InputError(
            f"this was the {what.replace('_', ' ')} of run {run.name!r}, and is not there any more",
            where=str(then),
            hint="put it back, or compare again",
        )
    return path
