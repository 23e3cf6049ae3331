"""All that can be reached, of whatever follows from whatever."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """*starts* and all that follows from them, each once, in the order it is found."""
    found = dict.fromkeys(starts)
    waiting = list(found)
    for each in waiting:  # it grows meanwhile
        for other in following(each):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return found
