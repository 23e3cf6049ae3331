"""Rows of a few ops of a large graph, equal to those of all, without reading the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from divergraph.ask.columns import CARRIES, read_columns
from divergraph.ask.facts import find_run, known_facts, load_facts
from divergraph.ask.reasons import ReasonCounter
from graphstore.columns.op_columns import OpColumns, OpSelection
from graphstore.contract import GraphStore
from graphstore.model import Metric, Side
from graphstore.op_row import OpRow
from graphstore.traverse.arrays import GraphArrays
from graphstore.traverse.starts_before import starts_before

_FEW = 1000
"""Of more ops than that, all are read: what they depend on lies everywhere."""
_SOON = 100
"""Rows that are read before many others."""
_LARGE = 10_000
"""Ops of the smallest graph of which few are read alone."""
_APART = 4096
"""Ops between two that are rather read along than asked for twice."""
_BEFORE = 64
"""Ops before a slice that are read with it: most of what feeds its ops, which gains ask for next,
and no longer to read."""
_READS = 60
"""Slices that take as long as all ops."""


def rows_of(
    store: GraphStore, target: str, numbers: Sequence[int], side: Side = Side.DEVICE
) -> Sequence[OpRow]:
    """The rows of the ops *numbers* of a run's side or an imported graph, in that order; those of
    many are made when they are gone through.

    Raises:
        UnknownNameError: no such run or graph.
    """
    if len(numbers) <= _FEW and known_facts(store, target, side) is None:
        arrays = store.arrays(target, side)
        if len(arrays.ids) >= _LARGE:
            rows = few_rows(store, target, numbers, side)
            if rows is not None:
                return rows
    columns = load_facts(store, target, side).rows
    return OpSelection(columns, np.array(numbers, dtype=np.int32))


def rows_soon(
    store: GraphStore, target: str, numbers: Sequence[int], side: Side
) -> Iterator[OpRow]:
    """The rows of :func:`rows_of`, the first of many before the others are read."""
    yield from rows_of(store, target, numbers[:_SOON], side)
    yield from rows_of(store, target, numbers[_SOON:], side)


def few_rows(
    store: GraphStore, target: str, numbers: Sequence[int], side: Side
) -> list[OpRow] | None:
    """The rows of the ops *numbers*; None if what they depend on is too far spread."""
    slices = _Slices(store, target, side)
    slices.read(numbers)
    rows = [slices.row(number) for number in numbers]
    if find_run(store, target) is None or side is Side.GOLDEN:
        return rows
    gains = slices.gains(numbers)
    heirs = [place for place, row in enumerate(rows) if row.state in CARRIES]
    named = [origin.op for origin in store.origins(target)]
    starts = [slices.arrays.number[op] for op in named]
    upstream = starts_before(slices.arrays, [numbers[place] for place in heirs], starts)
    if gains is None or upstream is None:
        return None
    rows = [replace(row, gain=gain) for row, gain in zip(rows, gains, strict=True)]
    for place, before in zip(heirs, upstream, strict=True):
        own = rows[place].id
        origins = tuple(named[start] for start in before if named[start] != own)
        rows[place] = replace(rows[place], origins=origins)
    return rows


class _Slices:
    """The ops of one side that were read so far, in slices of ops that follow each other."""

    def __init__(self, store: GraphStore, target: str, side: Side) -> None:
        self.arrays: GraphArrays = store.arrays(target, side)
        self._place = store, target, side
        self._slices: list[tuple[range, OpColumns]] = []

    def read(self, numbers: Iterable[int]) -> bool:
        """Read the ops *numbers* where they are not yet; False if that were too many slices."""
        store, target, side = self._place
        missing = sorted({n for n in numbers if self._slice(n) is None})
        for part in _stretches(missing):
            if len(self._slices) >= _READS:
                return False
            widened = range(max(0, part.start - _BEFORE), part.stop)
            columns = read_columns(store, target, side, self.arrays, ReasonCounter(), widened)
            self._slices.append((widened, columns))
        return True

    def row(self, number: int) -> OpRow:
        """A row, as far as it does not depend on other ops."""
        part, columns = self._known(number)
        return replace(columns[number - part.start], topo=number)

    def gains(self, numbers: Sequence[int]) -> list[float | None] | None:
        """Error out over the worst error of the nearest measured ancestors of each op; None if
        these are too far spread."""
        waiting: dict[int, set[int]] = {}
        seen: dict[int, set[int]] = {}
        worst: dict[int, float] = {}
        for number in numbers:
            if not np.isnan(self._error(number)):
                waiting[number] = {number}
                seen[number] = set()
        while waiting:
            before = {
                number: {source for op in ops for source in self.arrays.predecessors(op).tolist()}
                - seen[number]
                for number, ops in waiting.items()
            }
            if not self.read(source for sources in before.values() for source in sources):
                return None
            waiting = {}
            for number, sources in before.items():
                seen[number] |= sources
                unmeasured = set()
                for source in sources:
                    if not self._is_measured(source):
                        unmeasured.add(source)
                    elif source < number and not np.isnan(error := self._error(source)):
                        worst[number] = max(error, worst.get(number, 0.0))
                if unmeasured:
                    waiting[number] = unmeasured
        return [
            self._error(number) / worst[number] if worst.get(number, 0.0) > 0.0 else None
            for number in numbers
        ]

    def _error(self, number: int) -> float:
        part, columns = self._known(number)
        place = int(columns.measured[number - part.start])
        if place < 0:
            return np.nan
        error = float(columns.metrics.numbers[Metric.RELATIVE_EUCLIDEAN_DISTANCE.value][place])
        return error if np.isfinite(error) else np.nan

    def _is_measured(self, number: int) -> bool:
        part, columns = self._known(number)
        return bool(columns.measured[number - part.start] >= 0)

    def _slice(self, number: int) -> tuple[range, OpColumns] | None:
        return next((one for one in self._slices if number in one[0]), None)

    def _known(self, number: int) -> tuple[range, OpColumns]:
        known = self._slice(number)
        assert known is not None, "only ops that were read are asked for"
        return known


def _stretches(numbers: Sequence[int]) -> Iterator[range]:
    """The ranges that hold ascending *numbers*, those near each other in one."""
    first = last = numbers[0] if numbers else 0
    for number in numbers:
        if number - last > _APART:
            yield range(first, last + 1)
            first = number
        last = number
    if numbers:
        yield range(first, last + 1)
