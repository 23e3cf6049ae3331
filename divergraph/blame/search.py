"""Search, by replays, for the ops to keep exact so that the least error is left at the outputs.

A replay is a golden run with the introduced errors of all ops added, except those kept exact. Far
from the golden run errors do not add up linearly: the op that matters most may be the one that,
alone, changes the least. Near it they do. So one strategy starts with all ops exact and gives up
the least harmful one at a time; the last ones are to be kept. Others add ops one at a time. The
best list is used as it is: swapping single ops would fit this particular error better, but not a
device whose rounding changes. Where the replays themselves round again, single ops are swapped.
Where every op rounds, fitting this particular error would only find luck, so one strategy is used
that gives equal weight to the effect of each op alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from divergraph.execute.contract import Array

_AT_ONCE = 4
"""Ops tried as the next one to give up."""
_AHEAD = 6
"""Ops tried as the next one to keep exact."""
_MOST = 190
"""Sets of ops tried in all while single ops are swapped."""
_EXCHANGED, _OTHERS = 3, 12
"""Ops tried as the one to swap out, and as the one to swap in."""
_GAIN = 0.995
"""The share of the remaining error that a swap may leave to be worth it."""
_CLOSELY = 24
"""From so many ops on, one is given up at a time; of more, a quarter."""
_NUMBERS = 1 << 14


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of the outputs' error: its share, and the change itself, shortened."""

    share: float
    error: Array


class Told(Enum):
    """How well a replay predicts the device run again with the same ops exact."""

    ALL = "the others make new errors in it, as on the device"
    MUCH = "the others err in it as they did, and much of that is no rounding"
    LITTLE = "the others err in it as they did, by rounding"


Replay = Callable[[frozenset[str]], Left]
"""Gives what is left with these tensors exact."""


@dataclass
class KeepSearch:
    """Searches among tensors; ``effects`` are the shortened changes each one's error makes
    alone."""

    replay: Replay
    effects: Mapping[str, Array]
    told: Told = Told.MUCH
    _known: dict[frozenset[str], Left] = field(default_factory=dict)

    def best(self, count: int) -> list[tuple[str, float]]:
        """Up to *count* tensors to keep exact, in order, each with the share of the error then
        left."""
        count = min(count, len(self.effects))
        if self.told is Told.ALL:
            lists = [self._given_up(3, count)[::-1][:count], self._taken_up(count, weight=0.0)]
            picked = self._exchanged(min(lists, key=self._share))
        elif self.told is Told.MUCH:
            lists = [self._given_up(_AT_ONCE)[::-1][:count]]
            lists += [self._taken_up(count, weight) for weight in (0.0, 1.0)]
            picked = min(lists, key=self._share)
        else:
            picked = self._taken_up(count, weight=1.0)
        return [(name, self._share(picked[: n + 1])) for n, name in enumerate(picked)]

    def _taken_up(self, count: int, weight: float) -> list[str]:
        """*count* tensors, each the best of the next few by size of effect. *weight* is given to
        the effect alone: errors that cancel on this input may add up on others."""
        sizes = {name: size(effect) for name, effect in self.effects.items()}
        waiting = sorted(sizes, key=lambda name: -sizes[name])
        exact: list[str] = []

        def cost(name: str) -> float:
            return size(self._left([*exact, name]).error) - weight * sizes[name]

        while len(exact) < count:
            exact.append(min(waiting[:_AHEAD], key=cost))
            waiting.remove(exact[-1])
        return exact

    def _given_up(self, at_once: int, closely_to: int = 1) -> list[str]:
        """All tensors in the order in which to give them up, the least harmful first. *at_once* are
        tried as the next one; from *closely_to* on, one is given up at a time."""
        effects = dict(self.effects)
        exact, order = list(effects), list[str]()
        while len(exact) > _CLOSELY:
            now = self._left(exact)
            exact.sort(key=lambda name: size(now.error + effects[name]))
            many = min(len(exact) // 4 + 1, len(exact) - _CLOSELY)
            order += exact[:many]
            del exact[:many]
        while len(exact) > 1:
            now = self._left(exact)
            exact.sort(key=lambda name: size(now.error + effects[name]))
            tries = at_once if len(exact) > closely_to else 1
            rest = {name: _without(exact, name) for name in exact[:tries]}
            tried = {name: self._left(names) for name, names in rest.items()}
            for name, effect_left in tried.items():
                effects[name] = effect_left.error - now.error
            weakest = min(tried, key=lambda name: tried[name].share)
            exact.remove(weakest)
            order.append(weakest)
        return [*order, *exact]

    def _exchanged(self, picked: list[str]) -> list[str]:
        """*picked* with single tensors swapped for others as long as less error is left, the
        heaviest first."""
        sizes = {name: size(effect) for name, effect in self.effects.items()}
        while len(self._known) < _MOST:
            waiting = sorted(sizes.keys() - set(picked), key=lambda name: -sizes[name])
            better = self._exchange(picked, waiting[:_OTHERS])
            if better is None:
                break
            picked = better
        return sorted(picked, key=lambda name: -self._share(_without(picked, name)))

    def _exchange(self, picked: list[str], others: Sequence[str]) -> list[str] | None:
        """*picked* with one tensor swapped for the best of *others*; None if that gains nothing."""
        by_harm = sorted(picked, key=lambda name: self._share(_without(picked, name)))
        for name in by_harm[:_EXCHANGED]:
            room = max(_MOST - len(self._known), 0)
            tried = [[*_without(picked, name), other] for other in others[:room]]
            best = min(tried, key=self._share, default=picked)
            if self._share(best) < _GAIN * self._share(picked):
                return best
        return None

    def _share(self, exact: Sequence[str]) -> float:
        return self._left(exact).share

    def _left(self, exact: Sequence[str]) -> Left:
        key = frozenset(exact)
        if key not in self._known:
            self._known[key] = self.replay(key)
        return self._known[key]


def _without(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name]


class Shortener:
    """Random projection: sums of random elements with random signs. Norms of short arrays, and
    angles between them, are about those of the long ones."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[Array, Array]] = {}

    def short(self, values: Array) -> Array:
        """*values* as at most 16384 numbers (float32)."""
        flat = np.asarray(values, np.float64).reshape(-1)
        if flat.size <= _NUMBERS:
            return flat.astype(np.float32)
        if flat.size not in self._places:
            draws = np.random.default_rng(flat.size)
            places = draws.integers(0, _NUMBERS, flat.size)
            self._places[flat.size] = places, draws.choice((-1.0, 1.0), flat.size)
        places, signs = self._places[flat.size]
        return np.bincount(places, signs * flat, _NUMBERS).astype(np.float32)


def size(error: Array) -> float:
    """The sum of squares of an error."""
    return float(np.vdot(error, error).real)
