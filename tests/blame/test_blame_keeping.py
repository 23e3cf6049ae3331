"""The search for ops to keep exact, held against trying all sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from divergraph.blame.search import KeepSearch, Left, Shortener, Told

NAMES = [f"op{n}" for n in range(12)]


class Outputs:
    """What errors do to some outputs; beyond *limit* these cannot go, as behind a sigmoid."""

    def __init__(
        self, seed: int, limit: float, ops: int = len(NAMES), falling: float = 0.5
    ) -> None:
        draw = np.random.default_rng(seed)
        sizes = falling ** np.arange(ops)[:, None]
        self.names = [f"op{n}" for n in range(ops)]
        self._errors = dict(zip(self.names, draw.standard_normal((ops, 40)) * sizes, strict=True))
        self._limit = limit
        self._base = np.linalg.norm(self.error(self.names))
        self.replays = 0

    def error(self, erring: list[str]) -> np.ndarray:
        total = sum((self._errors[name] for name in erring), np.zeros(40))
        return self._limit * np.tanh(total / self._limit)

    def left(self, exact: frozenset[str]) -> Left:
        self.replays += 1
        error = self.error([name for name in self.names if name not in exact])
        return Left(float(np.linalg.norm(error) / self._base), error)

    def search(self, told: Told = Told.MUCH) -> KeepSearch:
        return KeepSearch(self.left, {name: self.error([name]) for name in self.names}, told)


@pytest.mark.parametrize("told", [Told.MUCH, Told.ALL])
@pytest.mark.parametrize("limit", [0.3, 100.0])
def test_little_more_is_left_than_by_the_best_of_all_sets(limit: float, told: Told) -> None:
    ratios = []
    for seed in range(8):
        outputs = Outputs(seed, limit)
        found = outputs.search(told).best(4)
        least = min(outputs.left(frozenset(each)).share for each in combinations(NAMES, 4))
        ratios.append(found[-1][1] / least)
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.1


def test_what_is_said_to_be_left_is_that_of_a_replay() -> None:
    outputs = Outputs(1, 0.5)
    found = outputs.search().best(5)
    picked = [name for name, _ in found]
    for place, (_, left) in enumerate(found, 1):
        assert left == outputs.left(frozenset(picked[:place])).share


@pytest.mark.parametrize(("told", "most"), [(Told.ALL, 240), (Told.MUCH, 240), (Told.LITTLE, 60)])
def test_a_hundred_ops_take_a_bounded_number_of_replays(told: Told, most: int) -> None:
    outputs = Outputs(2, 1.0, ops=100)
    outputs.search(told).best(10)
    assert outputs.replays <= most


def test_where_all_round_anew_no_luck_is_searched_for() -> None:
    """Other draws of errors of the same sizes: less is left than by a list for the first draw."""
    lefts: dict[Told, list[float]] = {Told.MUCH: [], Told.LITTLE: []}
    for seed in range(12):
        first, again = (Outputs(each, 100.0, ops=30, falling=0.95) for each in (seed, 99 + seed))
        for told, left in lefts.items():
            picked = [name for name, _ in first.search(told).best(8)]
            left.append(again.left(frozenset(picked)).share)
    assert np.mean(lefts[Told.LITTLE]) < np.mean(lefts[Told.MUCH])


def test_where_replays_are_true_exchanging_ops_leaves_less() -> None:
    lefts = {
        told: [
            Outputs(seed, 0.1, ops=30, falling=0.9).search(told).best(6)[-1][1] for seed in range(6)
        ]
        for told in (Told.MUCH, Told.ALL)
    }
    assert np.mean(lefts[Told.ALL]) < np.mean(lefts[Told.MUCH])


def test_shortened_arrays_keep_lengths_and_angles() -> None:
    draw = np.random.default_rng(0)
    shortener = Shortener()
    one = draw.standard_normal((300, 400))
    other = one + draw.standard_normal((300, 400))
    short, shorter = shortener.short(one), shortener.short(other)
    assert short.size == 16384
    assert np.linalg.norm(short) == pytest.approx(np.linalg.norm(one), rel=0.03)
    assert short @ shorter == pytest.approx(np.vdot(one, other), rel=0.05)
    few = np.arange(6.0).reshape(2, 3)
    assert shortener.short(few).tolist() == [0, 1, 2, 3, 4, 5]
