"""The paths of an error from an op to the outputs, and the ops where all of them can be cut."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from divergraph.ask.error_paths.path_steps import ErrorRegion, PathSteps
from divergraph.ask.facts import Facts
from divergraph.ask.trace_answers import Cut, ErrorPath
from graphstore.traverse.algorithms import ancestors, induced_edges
from graphstore.traverse.arrays import Bool, Int32
from graphstore.traverse.error_paths import immediate_dominators, path_to, widest_paths_to

SHOWN_WAYS = 5


def error_paths(
    facts: Facts, start: int, inside: Bool, ends: Sequence[int], healed: Int32
) -> tuple[ErrorPath, ...]:
    """The widest paths from op number *start* to the *ends* with the largest errors.

    *inside* is true for *start* and the ops downstream of it that count; the error ends at the ops
    *healed*. At most :data:`SHOWN_WAYS`; one for each end.
    """
    errors = facts.rows.relative_errors
    before = widest_paths_to(facts.arrays, [start], inside, errors)
    chosen = _worst_ends(before, errors, ends)
    paths = _Paths(ErrorRegion(facts, start, inside, healed, errors), inside)
    return tuple(paths.path(path_to(before, end), error) for end, error in chosen)


def _worst_ends(
    before: Int32, errors: NDArray[np.float64], ends: Sequence[int]
) -> list[tuple[int, float | None]]:
    """The ends with the largest errors, each with the error of the last measured op before it."""
    parents = before.tolist()
    worst_of: dict[int, float] = {}
    errors_of_ends: list[tuple[float, int]] = []
    for end in ends:
        climbed = []
        at = end
        while at not in worst_of and math.isnan(errors[at]) and parents[at] not in (at, -1):
            climbed.append(at)
            at = parents[at]
        error = worst_of.get(at, float(errors[at]))
        worst_of.update(dict.fromkeys(climbed, error))
        errors_of_ends.append((error, end))
    best = heapq.nlargest(
        SHOWN_WAYS,
        errors_of_ends,
        key=lambda item: (-1.0 if math.isnan(item[0]) else item[0], -item[1]),
    )
    return [(end, None if math.isnan(error) else error) for error, end in best]


class _Paths:
    """What lies downstream of a start, for describing the paths in it."""

    def __init__(self, region: ErrorRegion, inside: Bool) -> None:
        self._region, self._inside = region, inside
        self._arrays = region.facts.arrays
        edges = induced_edges(self._arrays, inside)
        self._dominators = immediate_dominators(len(inside), edges, region.start)

    def path(self, numbers: Sequence[int], error: float | None) -> ErrorPath:
        """The path through the ops *numbers*, with what happens to the error at each."""
        ids, end = self._arrays.ids, numbers[-1]
        places = np.flatnonzero(self._between(end))
        size, cuts = len(places), self._chain(end)[1:-1]
        above = np.searchsorted(places, cuts).tolist()
        column = np.asarray(numbers, dtype=np.int32)
        return ErrorPath(
            ids[end],
            PathSteps(self._region, column, self._region.joining(column)),
            error,
            size,
            tuple(Cut(ids[op], at, size - 1 - at) for op, at in zip(cuts, above, strict=True)),
        )

    def _between(self, end: int) -> Bool:
        mask = np.zeros_like(self._inside)
        mask[ancestors(self._arrays, [end])] = True
        mask[end] = True
        return mask & self._inside

    def _chain(self, end: int) -> list[int]:
        chain = [end]
        while chain[-1] != self._region.start:
            chain.append(int(self._dominators[chain[-1]]))
        return chain[::-1]
