"""Values are kept by how many and how large they are, and made once however many ask."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from graphstore.recent import Recent, about_bytes


@dataclass(frozen=True)
class Columns:
    numbers: np.ndarray
    names: tuple[str, ...]


def test_sizes_are_those_of_arrays_and_about_those_of_lists() -> None:
    assert about_bytes(Columns(np.zeros(1000), ())) == 8000
    assert about_bytes({"a": np.zeros(10, np.int8), "b": 3}) == 10
    assert about_bytes(Columns(np.zeros(0), ("name",) * 5000)) == 1_000_000


def test_large_values_are_forgotten_small_ones_are_not() -> None:
    kept: Recent[np.ndarray] = Recent(2, 1000)
    for key in "abc":
        kept.get(key, lambda: np.zeros(100))
    assert [key for key in "abc" if kept.known(key) is not None] == ["b", "c"]
    for key in "defghi":
        kept.get(key, lambda: np.zeros(1))
    assert [key for key in "abcdefghi" if kept.known(key) is not None] == list("cdefghi")


def test_one_of_many_who_ask_at_once_makes_it() -> None:
    kept: Recent[int] = Recent(2)
    made, begun = [], threading.Barrier(8)

    def ask() -> None:
        begun.wait()
        kept.get("key", lambda: made.append(1) or 7)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert kept.known("key") == 7


def test_what_cannot_be_made_is_tried_again() -> None:
    kept: Recent[int] = Recent(2)
    with pytest.raises(ZeroDivisionError):
        kept.get("key", lambda: 1 // 0)
    assert kept.get("key", lambda: 1) == 1
    assert kept.get("key", lambda: 2, lambda found: found != 1) == 2
