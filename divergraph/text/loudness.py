"""How much is told beside an answer: the usual, nothing (``-q``), or what takes time (``-v``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum


class Loudness(IntEnum):
    """What a person gets to see beside the answer; errors always."""

    QUIET = 0
    USUAL = 1
    VERBOSE = 2


_NOW: ContextVar[Loudness] = ContextVar("loudness", default=Loudness.USUAL)


def loudness() -> Loudness:
    """As it is now."""
    return _NOW.get()


@contextmanager
def told_with(wanted: Loudness) -> Iterator[None]:
    """Another loudness while the block runs."""
    before = _NOW.set(wanted)
    try:
        yield
    finally:
        _NOW.reset(before)
