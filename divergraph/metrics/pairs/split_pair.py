"""One large pair measured in parts by several processes.

The parts are whole blocks of the sweep, whose records are combined in the order of the
blocks: the result is that of one process to the last bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from divergraph.jobs.executors import BatchExecutor
from divergraph.jobs.job import Job
from divergraph.metrics.error_places import Places
from divergraph.metrics.flat import Flat, Strided, flat_float32, is_mapped
from divergraph.metrics.measure import DEFAULT, Wanted
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.tensor_pairs import (
    AnyPair,
    measured_pair,
    tensor_pair,
)
from divergraph.metrics.pairs.work import MeasureWork
from divergraph.metrics.second_pass import Second, folded_second
from divergraph.metrics.sums import NO_SECOND, SecondSums, Sums
from divergraph.metrics.sweep import BLOCK, Seen, Sweeper, folded
from divergraph.values.pairs import read_pair
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import or_raise
from graphstore.errors import ImportFormatError

_PART = BLOCK * 32
"""Elements a process takes at a time."""

_Part: TypeAlias = tuple[int, int]
_SeenPart: TypeAlias = tuple[int, int, tuple[Seen, ...]]
_Found: TypeAlias = tuple[list[SecondSums], Places | None]

_mine = threading.local()


@dataclass(frozen=True, slots=True)
class MeasureInParts:
    """Measures one large pair after the other, each by all workers of ``executor``."""

    executor: BatchExecutor
    want: Wanted = DEFAULT

    def __call__(self, item: AnyPair) -> Measurement:
        """The measurement of one pair."""
        sweeper = _SplitSweeper(tensor_pair(item), self.executor)
        return measured_pair(item, self.want, sweeper)

    def lost(self, item: AnyPair, why: str) -> Measurement:
        """A pair that cannot be measured on this machine."""
        return MeasureWork(self.want).lost(item, why)


class _SplitSweeper(Sweeper):
    """Sweeps *pair* in parts, if any process can read a part of it."""

    def __init__(self, pair: TensorPair, executor: BatchExecutor) -> None:
        super().__init__()
        self._pair, self._executor = pair, executor

    def both(
        self, device: Flat, golden: Flat, ask: Callable[[Sums], Second | None]
    ) -> tuple[Sums, SecondSums]:
        """The sums of both sweeps, as those of one process."""
        if self._pair.reorder is not None or not (_is_open(device) and _is_open(golden)):
            return super().both(device, golden, ask)
        size, width = len(device), device.dtype.itemsize + golden.dtype.itemsize
        parts = [(start, min(start + _PART, size)) for start in range(0, size, _PART)]
        sizes = [(stop - start) * width for start, stop in parts]
        first = FirstSweep(self._pair)
        seen: list[Seen] = []
        records = Job(parts, first, sizes, executor=self._executor).run()
        sums = folded(chain.from_iterable(records), seen)
        asked = ask(sums)
        if asked is None:
            return sums, NO_SECOND
        items = [
            (start, stop, tuple(seen[start // BLOCK : -(-stop // BLOCK)])) for start, stop in parts
        ]
        second = SecondSweep(self._pair, asked)
        found = Job(items, second, sizes, executor=self._executor).run()
        for _, places in found:
            if places is not None and asked.places is not None:
                asked.places.join(places)
        return sums, folded_second(chain.from_iterable(records for records, _ in found))


def _is_open(values: Flat) -> bool:
    return is_mapped(values.array if isinstance(values, Strided) else values)


@dataclass(frozen=True, slots=True)
class FirstSweep:
    """The first sweep over a part of a pair: work of a job."""

    pair: TensorPair

    def __call__(self, item: _Part) -> list[Sums]:
        """The record of each block from one place of the flat tensors to another."""
        return list(_sweeper().first_blocks(*_sides(self.pair, *item), item[0]))

    def lost(self, item: _Part, why: str) -> list[Sums]:
        """A part that nobody can read.

        Raises:
            ImportFormatError: always, as sums that leave something out are none.
        """
        raise _lost(self.pair, item, why)


@dataclass(frozen=True, slots=True)
class SecondSweep:
    """The second sweep over a part of a pair, of which the first saw what is told."""

    pair: TensorPair
    asked: Second

    def __call__(self, item: _SeenPart) -> _Found:
        """The record of each block, and the places of its bad elements if asked for."""
        start, stop, seen = item
        asked, places = self.asked, None
        if asked.places is not None:
            places = asked.places.fresh()
            asked = Second(asked.scales, asked.atol, asked.rtol, places)
        sides = _sides(self.pair, start, stop)
        return list(_sweeper().second_blocks(*sides, asked, seen, start)), places

    def lost(self, item: _SeenPart, why: str) -> _Found:
        """A part that nobody can read.

        Raises:
            ImportFormatError: always, as sums that leave something out are none.
        """
        raise _lost(self.pair, item[:2], why)


def _sides(pair: TensorPair, start: int, stop: int) -> tuple[Flat, Flat]:
    values = or_raise(read_pair(pair))
    return flat_float32(values.device)[start:stop], flat_float32(values.golden)[start:stop]


def _sweeper() -> Sweeper:
    found: Sweeper | None = getattr(_mine, "sweeper", None)
    if found is None:
        found = _mine.sweeper = Sweeper()
    return found


def _lost(pair: TensorPair, part: Sequence[int], why: str) -> ImportFormatError:
    what = f"elements {part[0]} to {part[1]} against {pair.golden.path}: {why}"
    return ImportFormatError(pair.device.path, what)
