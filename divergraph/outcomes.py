"""One table: what kind of ending means which exit code, screen title and HTTP status."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from graphstore.errors import (
    ClusterError,
    DivergraphError,
    InputError,
    NameTakenError,
    NotDoneError,
    StoreError,
    UnknownNameError,
)
from graphstore.model import Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an ending is shown by each front end."""

    exit_code: int
    title: str
    status: int = 200


FINE = Outcome(0, "done")
DIVERGED = Outcome(1, "diverged")
BAD_INPUT = Outcome(2, "cannot use this input", 400)
NAME_TAKEN = Outcome(2, "the name is taken", 409)
NOT_FOUND = Outcome(2, "not found", 404)
NOTHING_COMPARED = Outcome(2, "nothing could be compared")
UNDECIDED = Outcome(2, "no answer can be right")
INPUTS_DIFFER = Outcome(2, "the sides were fed different inputs")
LAYOUTS_DIFFER = Outcome(2, "the sides split the job differently")
TROUBLE = Outcome(3, "internal trouble", 500)
STORE_TROUBLE = Outcome(3, "the store cannot be used", 503)
CLUSTER_TROUBLE = Outcome(3, "the cluster cannot be used", 503)
DISK_TROUBLE = Outcome(3, "the disk is full or fails", 507)

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_SQLITE_DISK = (10, 13)
"""SQLITE_IOERR and SQLITE_FULL; the higher bytes of its codes say more."""

_ERRORS: tuple[tuple[type[BaseException], Outcome], ...] = (
    (UnknownNameError, NOT_FOUND),
    (NotDoneError, NOT_FOUND),
    (NameTakenError, NAME_TAKEN),
    (InputError, BAD_INPUT),
    (StoreError, STORE_TROUBLE),
    (ClusterError, CLUSTER_TROUBLE),
    (DivergraphError, TROUBLE),
    (BaseException, TROUBLE),
)

_VERDICTS = {
    Verdict.DIVERGED: DIVERGED,
    Verdict.INPUTS_DIFFER: INPUTS_DIFFER,
    Verdict.LAYOUTS_DIFFER: LAYOUTS_DIFFER,
    Verdict.UNDECIDED: UNDECIDED,
    Verdict.WITHIN_ROUNDING: FINE,
    Verdict.CLEAN: FINE,
    Verdict.NOT_COMPARED: NOTHING_COMPARED,
}
WORST_FIRST = tuple(_VERDICTS)
"""Verdicts in the order in which lists show runs and many runs are summed up."""


def outcome_of_error(error: BaseException) -> Outcome:
    """The outcome of the most specific kind *error* is of; whose disk failed, of that."""
    if disk_failed(error):
        return DISK_TROUBLE
    return next(outcome for kind, outcome in _ERRORS if isinstance(error, kind))


def disk_failed(error: BaseException | None) -> bool:
    """Whether *error*, or what caused it, is a disk that is full, over its quota or broken.

    Whatever could not be written then, a report or the store: no other input would help.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_DISK:
            return True
        error = error.__cause__
    return False


def gives_no_answer(verdict: Verdict) -> bool:
    """Whether *verdict* is neither good nor bad: undecided, nothing compared, unlike inputs or
    layouts. Nothing may be built on such a run."""
    return outcome_of_verdict(verdict).exit_code not in (FINE.exit_code, DIVERGED.exit_code)


def outcome_of_verdict(verdict: Verdict) -> Outcome:
    """The outcome of a finished comparison."""
    return _VERDICTS[verdict]
