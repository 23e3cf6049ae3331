"""Unexpected errors, in a form the user can read and report."""

from __future__ import annotations

import traceback
from pathlib import Path

from graphstore.errors import DivergraphError
from graphstore.private_folder import private_folder

FILE = "trouble.txt"


def unexpected(error: BaseException, folder: Path) -> DivergraphError:
    """*error* in one sentence; how it came about is written to a file in *folder*."""
    path = folder / FILE
    words = str(error).strip().partition("\n")[0]
    what = f"unexpected trouble: {type(error).__name__}{f': {words}' if words else ''}"
    try:
        private_folder(folder)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError:
        return DivergraphError(what, hint="a fault of divergraph: please report it")
    return DivergraphError(
        what, where=str(path), hint="a fault of divergraph: please report it with this file"
    )
