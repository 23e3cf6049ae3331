"""The closer look at one pair: its elements, and what their errors are like.

A large pair is looked at in parts by several processes; what they see joins to what one
process would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from divergraph.dump_diff.diff_dumps import PairDiff
from divergraph.dump_diff.elements import ElementTable, FoundElements, check_elements
from divergraph.jobs.executors import SerialExecutor, chosen_executor
from divergraph.jobs.job import Job
from divergraph.metrics.flat import Flat, blocks, flat, is_mapped
from divergraph.metrics.inspection import Inspection, Look, finite_errors, unit_of
from divergraph.metrics.measure import Wanted
from divergraph.metrics.pairs.many_pairs import DEFAULT_WORKERS, Workers
from divergraph.metrics.pairs.work import PartWork
from divergraph.values.array_types import Array
from divergraph.values.pairs import read_pair
from divergraph.values.tensor_pair import TensorPair
from divergraph.values.unread import or_raise
from graphstore.model import DType

_BLOCK = 32_768
"""Elements looked at at once: they stay in the cache."""

_PART = _BLOCK * 128
"""Elements of a part that a process takes."""

_LARGE = 16 << 20
"""Of tensors with more elements it is not told where most of them are bad: it is nowhere
in particular, and takes longer than all the rest."""

_Part: TypeAlias = tuple[int, int]
_Seen: TypeAlias = tuple[Look, FoundElements]


@dataclass(frozen=True, slots=True)
class CloseLook:
    """The elements of a pair, its histogram of errors, and the limits of one element."""

    table: ElementTable
    inspection: Inspection
    atol: float
    rtol: float


def look_closely(
    pair: PairDiff, want: Wanted, *, first: int, top: int, workers: Workers = DEFAULT_WORKERS
) -> CloseLook | None:
    """The elements of *pair*; None where it has no values to show (statistics, damage).

    Raises:
        ImportFormatError: a file has changed since it was measured.
    """
    figures = pair.found.figures
    if pair.pair is None or figures is None:
        return None
    device, golden = _values(pair.pair)
    check_elements(device, golden)
    types = (pair.found.device_dtype, pair.found.golden_dtype)
    work = LookAtPart(pair.pair, figures.atol, want.rtol, first, top, types)
    look, elements = _seen(work, device, golden, workers)
    inspection = look.result(pair.pair.layout, pair.pair.c0)
    return CloseLook(elements.table(device, golden), inspection, figures.atol, figures.rtol)


def _seen(work: LookAtPart, device: Array, golden: Array, workers: Workers) -> _Seen:
    size = golden.size
    parts = [(start, min(start + _PART, size)) for start in range(0, size, _PART)]
    if not (is_mapped(device) and is_mapped(golden)):
        return work.look(device, golden, 0, size)
    bytes_read = device.nbytes + golden.nbytes
    executor = workers.executor or chosen_executor(
        len(parts), bytes_read, workers.jobs, workers.cluster
    )
    try:
        if isinstance(executor, SerialExecutor):
            return work.look(device, golden, 0, size)
        sizes = [(stop - start) * bytes_read // size for start, stop in parts]
        seen = Job(parts, work, sizes, executor=executor).run()
    finally:
        if workers.executor is None:
            executor.close()
    look, elements = seen[0]
    for later_look, later_found in seen[1:]:
        look.join(later_look)
        elements.join(later_found)
    return look, elements


@dataclass(frozen=True, slots=True)
class LookAtPart(PartWork):
    """Looks at a part of a pair."""

    atol: float
    rtol: float
    first: int
    top: int
    types: tuple[DType | None, DType | None]

    def __call__(self, item: _Part) -> _Seen:
        """What is seen of the elements from one place of the flat tensors to another."""
        return self.look(*_values(self.pair), *item)

    def look(self, device: Array, golden: Array, start: int, stop: int) -> _Seen:
        """The same of arrays that are open."""
        at_most = golden.size // 2 if golden.size > _LARGE else None
        unit = unit_of(device, golden, self.types)
        look = Look(golden.shape, self.atol, self.rtol, unit, at_most)
        elements = FoundElements(self.atol, self.rtol, self.first, self.top)
        x, y = _part(flat(device), start, stop), _part(flat(golden), start, stop)
        for begin, one, other in blocks(_BLOCK, x, y):
            errors, finite = finite_errors(one, other)
            look.add(one, other, start + begin, errors, finite)
            elements.add(one, other, start + begin, errors, finite)
        return look, elements


def _values(pair: TensorPair) -> tuple[Array, Array]:
    pair_values = or_raise(read_pair(pair))
    return pair_values.device, pair_values.golden


def _part(values: Flat, start: int, stop: int) -> Flat:
    return values if stop - start == len(values) else values[start:stop]
