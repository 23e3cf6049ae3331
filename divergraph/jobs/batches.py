"""Items put together so that a batch is worth sending to a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

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
    taken: list[int] = []
    weight = 0
    for number in numbers:
        if taken and (weight + sizes[number] > most_bytes or len(taken) >= most_items):
            yield tuple(taken)
            taken, weight = [], 0
        taken.append(number)
        weight += sizes[number]
    if taken:
        yield tuple(taken)
