"""Which ops to keep exact so that least of the outputs' error is left: a search by replays.

A replay is a golden run with the introduced errors of all ops added but those kept exact. Far
from the golden run errors do not simply add up: the one op without which most would be left may
be the one that, alone, changes least. Near it they do. So one way starts with all ops exact and
gives up one after the other, the one that harms least; the last to be given up are the ones to
keep. Others take ops up one after the other. The list that leaves least is taken as it is: to
exchange single ops in it leaves less of this very error, but not on a device that rounds anew.
Where replays round anew themselves, what they leave is left, and single ops are exchanged.
Where every op rounds, searching for what leaves least of this very error finds luck; so there one
way is enough, that minds as much how large each op's effect is by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from divergraph.execute.contract import Array

_AT_ONCE = 4
"""Ops tried as the next to give up."""
_AHEAD = 6
"""Ops tried as the next to keep exact."""
_MOST = 190
"""Sets of ops tried in all where single ones are exchanged."""
_EXCHANGED, _OTHERS = 3, 12
"""Ops tried as the one to exchange, and as what to have for it."""
_GAIN = 0.995
"""What an exchange must leave of what was left, to be worth it."""
_CLOSELY = 24
"""Of so many ops on they are given up one by one; of more, a quarter at once."""
_NUMBERS = 1 << 14


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of the outputs' error: as a share of all of it, and in short."""

    share: float
    error: Array


class Told(Enum):
    """What a replay tells of the device run again with the same ops exact."""

    ALL = "the others err anew in it, as on the device"
    MUCH = "the others err in it as they did, and much of that is no rounding"
    LITTLE = "the others err in it as they did, by rounding"


Replay = Callable[[frozenset[str]], Left]
"""What is left with these tensors exact."""


@dataclass
class KeepSearch:
    """Searches among tensors; ``effects`` are what each one's error alone does, in short."""

    replay: Replay
    effects: Mapping[str, Array]
    told: Told = Told.MUCH
    _known: dict[frozenset[str], Left] = field(default_factory=dict)

    def best(self, count: int) -> list[tuple[str, float]]:
        """Up to *count* tensors, each with the share of the error left from there on."""
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
        """*count* tensors, each that of the next few by size of effect that leaves least.

        By *weight* it counts how large the effect is by itself: errors that make up for each
        other on this input may add up on others.
        """
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
        """All tensors in the order to give them up in, the least harm first.

        *at_once* are tried as the next; of *closely_to* or fewer that are left, only one.
        """
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
            tried = {name: self._left(each) for name, each in rest.items()}
            for name, left in tried.items():
                effects[name] = left.error - now.error
            least = min(tried, key=lambda name: tried[name].share)
            exact.remove(least)
            order.append(least)
        return [*order, *exact]

    def _exchanged(self, picked: list[str]) -> list[str]:
        """*picked*, single ones exchanged for others as long as less is left, those of most
        weight first."""
        sizes = {name: size(effect) for name, effect in self.effects.items()}
        while len(self._known) < _MOST:
            waiting = sorted(sizes.keys() - set(picked), key=lambda name: -sizes[name])
            better = self._exchange(picked, waiting[:_OTHERS])
            if better is None:
                break
            picked = better
        return sorted(picked, key=lambda name: -self._share(_without(picked, name)))

    def _exchange(self, picked: list[str], others: Sequence[str]) -> list[str] | None:
        """*picked* with one exchanged for the best of *others*; None if that is no gain."""
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
    return [each for each in names if each != name]


class Shortener:
    """Makes few numbers of many: sums of random ones with random signs.

    Lengths and angles between short arrays are about those between the long ones.
    """

    def __init__(self) -> None:
        self._places: dict[int, tuple[Array, Array]] = {}

    def short(self, values: Array) -> Array:
        """At most 16384 numbers, as float32."""
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
    """The sum of squares."""
    return float(np.vdot(error, error).real)
