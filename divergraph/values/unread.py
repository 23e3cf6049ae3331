"""Why values cannot be read, as a value instead of an exception."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from graphstore.errors import ImportFormatError
from graphstore.model import Reason
from importers.dumps.index import DamagedError
from importers.layouts import LayoutError, UnsupportedLayoutError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Unread:
    """A tensor whose values cannot be read: ``reason`` is what a comparison reports, ``error`` is
    raised by callers that cannot go on without the values."""

    reason: Reason
    detail: str
    error: ImportFormatError


def unread(path: Path, error: ImportFormatError | LayoutError) -> Unread:
    """What *error* means for the tensor in the file *path*."""
    if isinstance(error, ImportFormatError):
        cause = error.__cause__
        # A tensor of text or objects is not a damaged one.
        reason = cause.reason if isinstance(cause, DamagedError) else Reason.UNREADABLE_DUMP
        return Unread(reason, str(error), error)
    unsupported = isinstance(error, UnsupportedLayoutError)
    reason = Reason.LAYOUT_UNSUPPORTED if unsupported else Reason.SHAPE_MISMATCH
    return Unread(reason, str(error), ImportFormatError(path, str(error)))


def or_raise(value: _T | Unread) -> _T:
    """*value*, if it could be read.

    Raises:
        ImportFormatError: it could not be read, or its layout not undone.
    """
    if isinstance(value, Unread):
        raise value.error
    return value
