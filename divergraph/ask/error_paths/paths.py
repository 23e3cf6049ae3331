"""The paths of an error from an op to the outputs, and the ops where all of them can be cut."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.facts import Facts
from divergraph.ask.reach import upstream_of_each
from divergraph.ask.trace_answers import Cut, ErrorPath, PathStep
from divergraph.rootcause import calibration
from graphstore.op_row import OpRow
from graphstore.traverse.algorithms import ancestors, induced_edges
from graphstore.traverse.arrays import Bool, GraphArrays, Int32
from graphstore.traverse.error_paths import immediate_dominators, path_to, widest_paths_to

SHOWN_WAYS = 5
ATTENUATES = 1.0 / calibration.AMPLIFIES
"""A gain below it lessens the error."""


def error_paths(
    facts: Facts, start: int, inside: Bool, ends: Sequence[int], healed: frozenset[str]
) -> tuple[ErrorPath, ...]:
    """The widest paths from op number *start* to the *ends* with the largest errors.

    *inside* is true for *start* and the ops downstream of it that count. At most
    :data:`SHOWN_WAYS`; one for each end.
    """
    errors = facts.rows.relative_errors
    before = widest_paths_to(facts.arrays, [start], inside, errors)
    chosen = _worst_ends(before, errors, ends)
    region = _Region(facts, start, inside, healed, errors)
    return tuple(region.path(path_to(before, end), error) for end, error in chosen)


def _worst_ends(
    before: Int32, errors: NDArray[np.float64], ends: Sequence[int]
) -> list[tuple[int, float | None]]:
    """The ends with the largest errors, each with the error of the last measured op before it."""
    parents = before.tolist()
    known: dict[int, float] = {}
    found: list[tuple[float, int]] = []
    for end in ends:
        climbed = []
        at = end
        while at not in known and math.isnan(errors[at]) and parents[at] not in (at, -1):
            climbed.append(at)
            at = parents[at]
        error = known.get(at, float(errors[at]))
        known.update(dict.fromkeys(climbed, error))
        found.append((error, end))
    best = heapq.nlargest(
        SHOWN_WAYS, found, key=lambda item: (-1.0 if math.isnan(item[0]) else item[0], -item[1])
    )
    return [(end, None if math.isnan(error) else error) for error, end in best]


class _Region:
    """What lies downstream of a start, for describing the paths in it."""

    def __init__(
        self,
        facts: Facts,
        start: int,
        inside: Bool,
        healed: frozenset[str],
        errors: NDArray[np.float64],
    ) -> None:
        self._errors = errors
        self._facts, self._start, self._inside, self._healed = facts, start, inside, healed
        sources, targets = induced_edges(facts.arrays, np.flatnonzero(inside).tolist())
        self._dominators = immediate_dominators(len(inside), (sources, targets), start).tolist()
        self._others = _other_origins(facts, start)

    def path(self, numbers: Sequence[int], error: float | None) -> ErrorPath:
        """The path through the ops *numbers*, with what happens to the error at each."""
        arrays, ids = self._facts.arrays, self._facts.arrays.ids
        end = numbers[-1]
        between = self._between(end)
        places = np.flatnonzero(between)
        cuts = [Cut(ids[op], int(np.searchsorted(places, op)), 0) for op in self._chain(end)[1:-1]]
        size = len(places)
        rows = self._facts.rows.rows(np.asarray(numbers, dtype=np.int32))
        steps = [self._step(arrays, numbers, at, row) for at, row in enumerate(rows)]
        return ErrorPath(
            ids[end],
            tuple(steps),
            error,
            size,
            tuple(Cut(cut.op, cut.above, size - 1 - cut.above) for cut in cuts),
        )

    def _between(self, end: int) -> Bool:
        mask = np.zeros_like(self._inside)
        mask[ancestors(self._facts.arrays, [end])] = True
        mask[end] = True
        return mask & self._inside

    def _chain(self, end: int) -> list[int]:
        chain = [end]
        while chain[-1] != self._start:
            chain.append(self._dominators[chain[-1]])
        return chain[::-1]

    def _step(self, arrays: GraphArrays, numbers: Sequence[int], at: int, row: OpRow) -> PathStep:
        op = numbers[at]
        if at == 0:
            return PathStep(row, other_origins=self._others.get(op, ()))
        last = numbers[at - 1]
        sources = [number for number in arrays.predecessors(op).tolist() if number != last]
        joins = [arrays.ids[number] for number in sources if self._brings_error(number)]
        clean = any(self._is_without(number) for number in sources)
        known = self._others.get(last, ())
        reached = self._others.get(op, ())
        joining = tuple(name for name in reached if name not in known and name != row.id)
        shrinks = row.gain is not None and row.gain < ATTENUATES
        return PathStep(row, tuple(joins), joining, clean and shrinks, row.id in self._healed)

    def _is_without(self, number: int) -> bool:
        """True if the op is computed, measured and not reached by the error."""
        computed = len(self._facts.arrays.predecessors(number)) > 0
        measured = bool(self._facts.rows.has_metrics[number])
        return computed and measured and not self._inside[number]

    def _brings_error(self, number: int) -> bool:
        error = float(self._errors[number])
        return bool(self._inside[number]) and (math.isnan(error) or error > 0.0)


def _other_origins(facts: Facts, start: int) -> dict[int, tuple[str, ...]]:
    """For each op the origins, other than the start, that it is or is downstream of."""
    others = [origin.op for origin in facts.origins if facts.arrays.number[origin.op] != start]
    if not others:
        return {}
    numbers = [facts.arrays.number[op] for op in others]
    upstream = upstream_of_each(facts.arrays, numbers)
    found = {op: tuple(others[at] for at in places) for op, places in enumerate(upstream) if places}
    for op, number in zip(others, numbers, strict=True):
        found[number] = tuple(dict.fromkeys((*found.get(number, ()), op)))
    return found
