"""Where a graph is to be written: a file, or a folder it is named in."""

from __future__ import annotations

import os
from pathlib import Path

from graphstore.errors import InputError


def output_place(text: str) -> Path:
    """The path *text*; with a slash at its end it is a folder, and made if it is missing.

    Raises:
        InputError: it cannot be made.
    """
    path = Path(text)
    if not text.endswith(("/", os.sep)):
        return path
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"the folder cannot be made: {why}", where=str(path)) from error
    return path
