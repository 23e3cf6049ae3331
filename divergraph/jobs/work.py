"""What a job does with one item, wherever that happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

Stopped = Callable[[], bool]
"""Whether a job was told to stop."""

NO_MEMORY = "it does not fit into the memory"


class Work(Protocol[T_contra, R_co]):
    """Pickled and sent to workers, with the items; results are pickled and sent back.

    Importing its module should load numpy and little else: each worker does that first.
    """

    def __call__(self, item: T_contra) -> R_co:
        """The result of one item. What can be wrong with an item is a result, no error."""

    def lost(self, item: T_contra, why: str) -> R_co:
        """The result of an item that cannot be worked on: *why* says what it does."""


def run_batch(work: Work[T, R], items: Sequence[T]) -> list[R]:
    """The results of *items*; one too large for the memory is lost, the others go on.

    Work that takes less time for many items at once has a method ``many``, which gives the
    results of a sequence of them.
    """
    many: Callable[[Sequence[T]], list[R]] | None = getattr(work, "many", None)
    if many is not None and len(items) > 1:
        with suppress(MemoryError):  # then one by one, to know which it is
            return many(items)
    results: list[R] = []
    for item in items:
        try:
            results.append(work(item))
        except MemoryError:
            results.append(work.lost(item, NO_MEMORY))
    return results
