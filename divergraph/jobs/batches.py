"""Items put together so that a batch is worth sending to a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

BATCH_BYTES = 64 << 20
BATCH_ITEMS = 500


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Items with their numbers in the job."""

    numbers: tuple[int, ...]
    items: tuple[T, ...]

    def __len__(self) -> int:
        return len(self.items)

    def halves(self) -> tuple[Batch[T], Batch[T]]:
        """Both halves of a batch of two items or more."""
        middle = len(self.items) // 2
        return (
            Batch(self.numbers[:middle], self.items[:middle]),
            Batch(self.numbers[middle:], self.items[middle:]),
        )


def in_batches(
    numbers: Iterable[int],
    items: Sequence[T],
    sizes: Sequence[int],
    *,
    most_bytes: int = BATCH_BYTES,
    most_items: int = BATCH_ITEMS,
) -> Iterator[Batch[T]]:
    """The items of these *numbers* in order, closed at *most_bytes* or *most_items*."""
    taken: list[int] = []
    weight = 0
    for number in numbers:
        if taken and (weight + sizes[number] > most_bytes or len(taken) >= most_items):
            yield Batch(tuple(taken), tuple(items[at] for at in taken))
            taken, weight = [], 0
        taken.append(number)
        weight += sizes[number]
    if taken:
        yield Batch(tuple(taken), tuple(items[at] for at in taken))
