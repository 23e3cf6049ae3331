"""Which part of an axis one rank of a job has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of places of an axis, one after the other: where each begins, and where it has ended."""


@dataclass(frozen=True, slots=True)
class AxisShare:
    """The *runs* that a rank has of an axis with *length* places in golden, and the name of the
    *rule* that says so."""

    rule: str
    runs: Runs
    length: int

    @property
    def size(self) -> int:
        """How many places the rank has."""
        return sum(stop - start for start, stop in self.runs)

    def of(self, length: int) -> Runs | None:
        """The same share of an axis of *length* places; None where that is no whole number of
        places."""
        scaled = [
            divmod(place * length, self.length)
            for start, stop in self.runs
            for place in (start, stop)
        ]
        if any(rest for _, rest in scaled):
            return None
        places = [place for place, _ in scaled]
        return joined(zip(places[::2], places[1::2], strict=True))

    @property
    def words(self) -> str:
        """``half 1 of 2`` for a part of equal ones, else the places."""
        (start, stop), *more = self.runs
        if not more and self.length % (stop - start) == 0 and start % (stop - start) == 0:
            count = self.length // (stop - start)
            noun = {2: "half", 3: "third", 4: "quarter"}.get(count, "part")
            return f"{noun} {start // (stop - start) + 1} of {count}"
        return "places " + ", ".join(f"{start} to {stop - 1}" for start, stop in self.runs)


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """*runs* with those in one that follow each other."""
    joined_runs: list[tuple[int, int]] = []
    for start, stop in runs:
        follows = bool(joined_runs) and joined_runs[-1][1] == start
        joined_runs.append((joined_runs.pop()[0] if follows else start, stop))
    return tuple(joined_runs)


def runs_of(places: Sequence[int]) -> Runs:
    """*places* as ranges."""
    return joined((place, place + 1) for place in places)


def within(outer: Runs, inner_length: int, inner: Runs) -> Runs:
    """The runs of two axes flattened into one, of which the outer has *outer* and the inner, of
    *inner_length* places, has *inner*."""
    return joined(
        (place * inner_length + start, place * inner_length + stop)
        for first, last in outer
        for place in range(first, last)
        for start, stop in inner
    )
