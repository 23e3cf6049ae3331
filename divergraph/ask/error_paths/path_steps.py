"""The steps of an error's path: columns over all of them, a value for each that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from divergraph.rootcause import calibration
from graphstore.columns.coded import Bool, Float, Int, any_in
from graphstore.model import Guilt, OpState
from graphstore.op_row import OpRow

if TYPE_CHECKING:
    from divergraph.ask.facts import Facts

ATTENUATES = 1.0 / calibration.AMPLIFIES
"""A gain below it lessens the error."""
_CHUNK = 8192


@dataclass(frozen=True, slots=True)
class PathStep:
    """An op on a path, with what happens to the error there.

    ``joins`` are the other ops that bring it error of the same start, ``other_origins``
    origins whose error joins here. ``diluted`` is true where the error shrinks because an
    input that the start does not reach is mixed in.
    """

    row: OpRow
    joins: tuple[str, ...] = ()
    other_origins: tuple[str, ...] = ()
    diluted: bool = False
    healed: bool = False


class ErrorRegion:
    """The ops downstream of a start, *inside*, and what each does to the error that comes by."""

    def __init__(
        self, facts: Facts, start: int, inside: Bool, healed: Int, errors: NDArray[np.float64]
    ) -> None:
        self.facts, self.start = facts, start
        arrays, rows = facts.arrays, facts.rows
        fed = np.diff(arrays.predecessor_start) > 0
        without = fed & rows.has_metrics & ~inside
        self.healed = np.zeros(len(rows), dtype=np.bool_)
        self.healed[healed] = True
        self.brings = inside & (np.isnan(errors) | (errors > 0.0))
        """The ops that pass an error of the start on."""
        brought = np.cumsum(np.append(0, self.brings[arrays.predecessor_ops]))
        self.brought: Int = np.diff(brought[arrays.predecessor_start])
        """By how many of the ops that feed it each op is brought such an error."""
        self.diluted = any_in(arrays.predecessor_start, without[arrays.predecessor_ops]) & (
            rows.gain < ATTENUATES
        )
        """The ops at which it lessens, an input being computed, measured and not reached by it."""
        self._own = {arrays.number[origin.op]: origin.op for origin in facts.origins}
        self._own.pop(start, None)
        self._others: dict[int, tuple[str, ...]] = {}

    @cached_property
    def dull(self) -> Bool:
        """The ops of which nothing is to be said, but for errors that join there."""
        rows, gains = self.facts.rows, self.facts.rows.gain
        guilty = np.append(rows.splits.guilts.where(lambda one: one is not Guilt.NONE), False)
        marked = (
            guilty[rows.judged] | rows.states.equal(OpState.ORIGIN) | self.healed | self.diluted
        )
        missing = ~rows.has_metrics & ~rows.reasons.equal(None)
        dull: Bool = ~(marked | missing) & (np.isnan(gains) | _is_carried(gains))
        return dull

    def others(self, number: int) -> tuple[str, ...]:
        """The origins, other than the start, that an op is or is downstream of."""
        upstream, origins = self.facts.upstream, self.facts.origins
        if not self._own or upstream is None:
            return ()
        code = int(upstream.codes[number])
        if code not in self._others:
            named = (origins[place].op for place in upstream.values[code])
            start = self.facts.arrays.ids[self.start]
            self._others[code] = tuple(op for op in named if op != start)
        others, own = self._others[code], self._own.get(number)
        return others if own is None or own in others else (*others, own)

    def joining(self, numbers: Int) -> dict[int, tuple[str, ...]]:
        """By place on the path the other origins whose error comes in there first."""
        upstream = self.facts.upstream
        if not self._own or upstream is None:
            return {}
        codes, own = upstream.codes[numbers], np.isin(numbers, list(self._own))
        changed = np.flatnonzero((codes[1:] != codes[:-1]) | own[1:] | own[:-1]) + 1
        joining = {0: self.others(int(numbers[0]))}
        ids = self.facts.arrays.ids
        for place in changed.tolist():
            last, number = int(numbers[place - 1]), int(numbers[place])
            passed = {*self.others(last), ids[number]}
            joining[place] = tuple(op for op in self.others(number) if op not in passed)
        return {place: names for place, names in joining.items() if names}

    def joins(self, number: int, last: int) -> tuple[str, ...]:
        """The ops other than *last* that bring an op an error."""
        arrays = self.facts.arrays
        sources = arrays.predecessors(number)
        return tuple(
            arrays.ids[other] for other in sources[self.brings[sources]].tolist() if other != last
        )


@dataclass(frozen=True, eq=False)
class PathSteps(Sequence[PathStep]):
    """The ops *numbers* of a path through a *region*, from place ``first`` of it on.

    A step is made when it is asked for. ``rows`` are those of places whose op says less than the
    path does.
    """

    region: ErrorRegion
    numbers: Int
    joining: Mapping[int, tuple[str, ...]]
    rows: Mapping[int, OpRow] = field(default_factory=dict)
    first: int = 0
    last: int = -1

    def __len__(self) -> int:
        return (len(self.numbers) if self.last < 0 else self.last) - self.first

    @overload
    def __getitem__(self, index: int) -> PathStep: ...
    @overload
    def __getitem__(self, index: slice) -> PathSteps: ...
    def __getitem__(self, index: int | slice) -> PathStep | PathSteps:
        """One step, or those of a stretch."""
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            assert step == 1, "a path has no gaps"
            return replace(self, first=self.first + first, last=self.first + max(first, last))
        place = range(self.first, self.first + len(self))[index]
        return self._steps(place, place + 1)[0]

    def __iter__(self) -> Iterator[PathStep]:
        end = self.first + len(self)
        for place in range(self.first, end, _CHUNK):
            yield from self._steps(place, min(place + _CHUNK, end))

    def __eq__(self, other: object) -> bool:
        """Whether *other* has the same steps, whatever store they are of."""
        if not isinstance(other, PathSteps):
            return NotImplemented
        return len(self) == len(other) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(len(self))

    @property
    def own(self) -> Int:
        """The numbers of its ops."""
        return self.numbers[self.first : self.first + len(self)]

    @cached_property
    def gains(self) -> Float:
        """The gain at each step, NaN where there is none."""
        gains = self.region.facts.rows.gain[self.own]
        for place, row in self.rows.items():
            if 0 <= place - self.first < len(gains):
                gains[place - self.first] = np.nan if row.gain is None else row.gain
        return gains

    @cached_property
    def only_carry(self) -> Bool:
        """The steps of which nothing is to be said: all they do is pass the error on."""
        carry = self.region.dull[self.own]
        for place in {*self.joining, *self.rows}:
            at = place - self.first
            if 0 <= at < len(carry):
                gain = self.gains[at]
                carries = bool(np.isnan(gain) or _is_carried(gain))
                is_marked = place in self.joining or not self._is_untold(int(self.numbers[place]))
                carry[at] = carries and not is_marked
        return carry

    @cached_property
    def joined(self) -> Bool:
        """The steps at which other ops bring the error, too."""
        own, region = self.own, self.region
        joined = np.zeros(len(own), dtype=np.bool_)
        joined[1:] = region.brought[own[1:]] > region.brings[own[:-1]]
        return joined

    @cached_property
    def met(self) -> Int:
        """The places of steps at which another error comes in: of other ops, or their own."""
        met = self.joined | self.region.facts.rows.states.equal(OpState.ORIGIN)[self.own]
        met[[at - self.first for at in self.joining if 0 <= at - self.first < len(met)]] = True
        return np.flatnonzero(met).astype(np.int32)

    def _is_untold(self, number: int) -> bool:
        rows, region = self.region.facts.rows[number], self.region
        guilty = rows.split is not None and rows.split.guilt is not Guilt.NONE
        is_marked = guilty or rows.state is OpState.ORIGIN
        return not (is_marked or region.healed[number] or region.diluted[number])

    def _steps(self, first: int, last: int) -> list[PathStep]:
        region, numbers = self.region, self.numbers[first:last]
        rows = region.facts.rows.rows(numbers)
        return [
            self._step(place, number, self.rows.get(place, row))
            for place, number, row in zip(range(first, last), numbers.tolist(), rows, strict=True)
        ]

    def _step(self, place: int, number: int, row: OpRow) -> PathStep:
        others = self.joining.get(place, ())
        if place == 0:
            return PathStep(row, other_origins=others)
        region, last = self.region, int(self.numbers[place - 1])
        several = region.brought[number] > region.brings[last]
        joins = region.joins(number, last) if several else ()
        healed = bool(region.healed[number])
        return PathStep(row, joins, others, bool(region.diluted[number]), healed)


CARRIED = (0.8, 1.25)
"""The range of gains at which an op only carries the error."""


def _is_carried(gain: Float) -> Bool:
    low, high = CARRIED
    return (gain >= low) & (gain <= high)
