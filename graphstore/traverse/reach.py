"""Everything reachable from some starts, for any successor function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """*starts* and everything reachable from them, each once, in the order found."""
    passed = dict.fromkeys(starts)
    waiting = list(passed)
    for current in waiting:  # it grows meanwhile
        for other in following(current):
            if other not in passed:
                passed[other] = None
                waiting.append(other)
    return passed
