"""What a job does with one item, wherever that happens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar

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


BATCH_BYTES = 64 << 20
BATCH_ITEMS = 500


Batch: TypeAlias = tuple[int, ...]
"""Numbers of items of a job that are done together."""


class OpenBatches:
    """Batches still to do, first those whose worker died: in halves, until the item that kills
    is alone."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches = iter(batches)
        self._once: set[int] = set()
        self.suspects: deque[Batch] = deque()

    def next(self) -> Batch | None:
        """The next batch to do; None if all are given out."""
        return self.suspects.popleft() if self.suspects else next(self._batches, None)

    def again(self, batch: Batch) -> bool:
        """Keep *batch* to be done again; False if it is one item that was tried twice."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self.suspects += (batch[:middle], batch[middle:])
            return True
        if batch[0] in self._once:
            return False
        self._once.add(batch[0])
        self.suspects.append(batch)
        return True


def in_batches(
    numbers: Iterable[int],
    sizes: Sequence[int],
    *,
    most_bytes: int = BATCH_BYTES,
    most_items: int = BATCH_ITEMS,
) -> Iterator[Batch]:
    """Items of these *numbers* in order, closed at *most_bytes* or *most_items*."""
    batch: list[int] = []
    weight = 0
    for number in numbers:
        if batch and (weight + sizes[number] > most_bytes or len(batch) >= most_items):
            yield tuple(batch)
            batch, weight = [], 0
        batch.append(number)
        weight += sizes[number]
    if batch:
        yield tuple(batch)
