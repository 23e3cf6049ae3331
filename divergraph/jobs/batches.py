"""Items put together so that a batch is worth sending to a worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

BATCH_BYTES = 64 << 20
BATCH_ITEMS = 500


Batch: TypeAlias = tuple[int, ...]
"""Numbers of items of a job that are done together."""


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Both halves of a batch of two items or more."""
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]


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
