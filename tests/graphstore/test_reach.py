"""What follows from what, whatever it is."""

from __future__ import annotations

from graphstore.traverse.reach import reached

AFTER = {"a": ["b", "c"], "b": ["d"], "c": ["d", "a"], "d": [], "e": ["a"]}


def test_all_that_follows_comes_once_and_the_nearest_first() -> None:
    assert list(reached(["a"], AFTER.__getitem__)) == ["a", "b", "c", "d"]
    assert list(reached(["d", "b"], AFTER.__getitem__)) == ["d", "b"]


def test_of_nothing_nothing_follows() -> None:
    assert reached([], AFTER.__getitem__) == {}
