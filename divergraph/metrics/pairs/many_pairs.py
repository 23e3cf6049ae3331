"""Many tensor pairs measured as one job: here, in processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from divergraph.jobs.executors import BatchExecutor, SerialExecutor, chosen_executor, usable_cores
from divergraph.jobs.job import Job, JobProgress
from divergraph.jobs.journal import Journal
from divergraph.jobs.progress import Progress, tell_problem
from divergraph.jobs.work import Work
from divergraph.metrics.error_places import Places
from divergraph.metrics.flat import Flat, Strided, flat_float32, is_mapped
from divergraph.metrics.measure import DEFAULT, Wanted
from divergraph.metrics.pairs.measurement import Measurement
from divergraph.metrics.pairs.tensor_pairs import AnyPair, measured_pair, tensor_pair
from divergraph.metrics.pairs.work import MeasureWork, PartWork, measuring_journal, own_sweeper
from divergraph.metrics.second_pass import Second, folded_second
from divergraph.metrics.sums import NO_SECOND, SecondSums, Sums
from divergraph.metrics.sweep import BLOCK, Seen, Sweeper, folded
from divergraph.text.words import REASON_WORDS
from divergraph.values.pairs import read_pair
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import or_raise
from graphstore.gc_paused import gc_paused

Heard: TypeAlias = Callable[[int, Measurement], None]

LEAST_BYTES = 256 << 20
"""Bytes below which a pair is not measured in parts."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where the work is done: in *jobs* processes (None: as many as the work is worth), or on the
    Dask cluster at this address; ``resume`` continues a killed comparison. An open ``executor``
    takes precedence over both, and stays open."""

    jobs: int | None = None
    cluster: str | None = None
    resume: bool = True
    executor: BatchExecutor | None = None


DEFAULT_WORKERS = Workers()


def measure_all(
    pairs: Sequence[AnyPair],
    progress: Progress,
    workers: Workers = DEFAULT_WORKERS,
    work: MeasureWork | None = None,
    sizes: Sequence[int] | None = None,
    heard: Heard | None = None,
) -> list[Measurement]:
    """The measurement of each pair, in order. *sizes* are the bytes of the pairs if these are
    already known; *heard* is called with each, and the number of its pair, as it is made."""
    work = work or MeasureWork()
    sizes = [pair.nbytes for pair in pairs] if sizes is None else sizes
    told = [number for number, pair in enumerate(pairs) if _is_told(pair)]
    files = sorted(set(range(len(pairs))).difference(told)) if told else list(range(len(pairs)))
    measurements: dict[int, Measurement] = {}

    def measure_some(
        numbers: Sequence[int],
        executor: BatchExecutor,
        how: Work[AnyPair, Measurement] = work,
        *,
        resume: bool,
    ) -> None:
        if numbers:
            some, theirs = [pairs[n] for n in numbers], [sizes[n] for n in numbers]
            hear = None if heard is None else _of_these(heard, numbers)
            journal = measuring_journal(some, work) if resume else None
            done = _measured(some, how, theirs, executor, progress, journal, hear)
            measurements.update(zip(numbers, done, strict=True))

    # Statistics are numbers we have: to hand them to others, or to note what came of them, takes
    # longer than to compare them.
    with gc_paused():
        measure_some(told, SerialExecutor(), resume=False)
    with ExitStack() as stack:
        executor = workers.executor
        huge: list[int] = []
        if executor is None and files:
            huge = _huge(sizes) if workers.cluster is None and workers.jobs != 1 else []
            parts = sum(sizes) // LEAST_BYTES if huge else 0
            executor = chosen_executor(
                max(len(files), parts), sum(sizes), workers.jobs, workers.cluster
            )
            stack.callback(executor.close)
        if executor is None or not huge or executor.workers == 1:
            measure_some(files, executor or SerialExecutor(), resume=workers.resume)
        else:
            # Huge pairs one after the other, each by all workers: else one process would still be
            # at a huge one when all others are done.
            parted = MeasureInParts(executor, work.want)
            measure_some(huge, SerialExecutor(), parted, resume=workers.resume)
            others = sorted(set(files).difference(huge))
            measure_some(others, executor, resume=workers.resume)
    return [measurements[number] for number in range(len(pairs))]


def _measured(
    pairs: Sequence[AnyPair],
    work: Work[AnyPair, Measurement],
    sizes: Sequence[int],
    executor: BatchExecutor,
    progress: Progress,
    journal: Journal[Measurement] | None,
    heard: Heard | None,
) -> list[Measurement]:
    def told(state: JobProgress, done: int) -> None:
        progress.step(done, state.rate_text())

    job = Job(pairs, work, sizes, executor=executor, journal=journal, watch=told)
    measurements: dict[int, Measurement] = {}
    for number, measurement in job.results():
        measurements[number] = measurement
        if heard is not None:
            heard(number, measurement)
        if measurement.reason is not None:
            text = f"{_name(pairs[number])}: {REASON_WORDS[measurement.reason]}"
            detail = measurement.detail
            tell_problem(progress, f"{text} ({detail})" if detail else text)
    job.forget()
    return [measurements[number] for number in range(len(pairs))]


def _of_these(heard: Heard, numbers: Sequence[int]) -> Heard:
    """*heard* for some of the pairs, whose numbers among all are *numbers*."""
    return lambda number, measurement: heard(numbers[number], measurement)


def _is_told(pair: AnyPair) -> bool:
    """Whether no file has to be read for *pair*."""
    return isinstance(pair, TensorPair) and None not in (
        pair.device.statistics,
        pair.golden.statistics,
    )


def _name(pair: AnyPair) -> str:
    """What a pair is called in a sentence."""
    if isinstance(pair, TensorPair):
        return f"{pair.device.op}:{pair.device.port}"
    return pair.device_path


def _huge(sizes: Sequence[int]) -> list[int]:
    """Pairs so large that one process would still be busy with one when all others are done."""
    total_size = sum(sizes)
    return [
        number
        for number, size in enumerate(sizes)
        if size >= LEAST_BYTES and size * usable_cores() > total_size
    ]


# A large pair is measured in parts: whole blocks of the sweep, whose records are combined in the
# order of the blocks. The result is that of one process to the last bit.
_PART = BLOCK * 32
"""Elements a process takes at a time."""

_Part: TypeAlias = tuple[int, int]
_SeenPart: TypeAlias = tuple[int, int, tuple[Seen, ...]]
_Found: TypeAlias = tuple[list[SecondSums], Places | None]


@dataclass(frozen=True, slots=True)
class MeasureInParts:
    """Measures large pairs one after the other, each with all workers of ``executor``."""

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
    """Sweeps *pair* in parts if processes can read parts of it, else as a whole."""

    def __init__(self, pair: TensorPair, executor: BatchExecutor) -> None:
        super().__init__()
        self._pair, self._executor = pair, executor

    def both(
        self, device: Flat, golden: Flat, ask: Callable[[Sums], Second | None]
    ) -> tuple[Sums, SecondSums]:
        """The sums of both sweeps, the same as one process gets."""
        if self._pair.reorder is not None or not (_is_open(device) and _is_open(golden)):
            return super().both(device, golden, ask)
        size, width = len(device), device.dtype.itemsize + golden.dtype.itemsize
        parts = [(start, min(start + _PART, size)) for start in range(0, size, _PART)]
        sizes = [(stop - start) * width for start, stop in parts]
        first = FirstSweep(self._pair)
        seen: list[Seen] = []
        records = Job(parts, first, sizes, executor=self._executor).run()
        sums = folded(chain.from_iterable(records), seen)
        passes = ask(sums)
        if passes is None:
            return sums, NO_SECOND
        items = [
            (start, stop, tuple(seen[start // BLOCK : -(-stop // BLOCK)])) for start, stop in parts
        ]
        second = SecondSweep(self._pair, passes)
        seen_parts = Job(items, second, sizes, executor=self._executor).run()
        for _, places in seen_parts:
            if places is not None and passes.places is not None:
                passes.places.join(places)
        return sums, folded_second(chain.from_iterable(records for records, _ in seen_parts))


def _is_open(values: Flat) -> bool:
    return is_mapped(values.array if isinstance(values, Strided) else values)


@dataclass(frozen=True, slots=True)
class FirstSweep(PartWork):
    """The first sweep over a part of a pair."""

    def __call__(self, item: _Part) -> list[Sums]:
        """The record of each block from one place of the flat tensors to another."""
        return list(own_sweeper().first_blocks(*_sides(self.pair, *item), item[0]))


@dataclass(frozen=True, slots=True)
class SecondSweep(PartWork):
    """The second sweep over a part of a pair, given what the first one saw."""

    asked: Second

    def __call__(self, item: _SeenPart) -> _Found:
        """The record of each block, and the places of its bad elements if asked for."""
        start, stop, seen = item
        second, places = self.asked, None
        if second.places is not None:
            places = second.places.fresh()
            second = Second(second.scales, second.atol, second.rtol, places)
        sides = _sides(self.pair, start, stop)
        return list(own_sweeper().second_blocks(*sides, second, seen, start)), places


def _sides(pair: TensorPair, start: int, stop: int) -> tuple[Flat, Flat]:
    values = or_raise(read_pair(pair))
    return flat_float32(values.device)[start:stop], flat_float32(values.golden)[start:stop]
