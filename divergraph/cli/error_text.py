"""What is said of an error, whoever asked: one sentence."""

from __future__ import annotations

import errno
from pathlib import Path

from divergraph.files.own_packages import strange_packages
from divergraph.outcomes import disk_failed
from graphstore.errors import DivergraphError, UnknownNameError


def error_text(error: BaseException) -> str:
    """The sentence for *error*."""
    if isinstance(error, UnknownNameError) and not error.hint and _is_graph_file(error):
        return _one_line(f"{error} (it is a file: divergraph import {error.name} names its graph)")
    if isinstance(error, DivergraphError):
        return _one_line(str(error))
    if isinstance(error, ImportError) and (reason := strange_packages()):
        return reason
    if is_unforeseen(error):
        kind, message = type(error).__name__, _one_line(str(error))
        where = "(DIVERGRAPH_DEBUG=1 shows where)"
        return f"internal error, please report it: {kind}: {message} {where}"
    assert isinstance(error, OSError)
    what = f"{error.filename}: " if error.filename else "cannot write: "
    return f"{what}{error.strerror}"


def _is_graph_file(error: UnknownNameError) -> bool:
    """Whether a file was given where a run or an imported graph is asked for."""
    try:
        return error.kind in ("run", "graph", "run or graph") and Path(error.name).exists()
    except (OSError, ValueError):
        return False


def is_unforeseen(error: BaseException) -> bool:
    """Whether *error* is ours to repair: neither bad input nor a disk that cannot be written."""
    if isinstance(error, OSError):
        return not disk_failed(error) and error.errno != errno.EROFS
    return not isinstance(error, DivergraphError)


def _one_line(text: str) -> str:
    return " ".join(text.split())
