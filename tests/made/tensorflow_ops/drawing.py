"""The table of ways to make TensorFlow's ops, and what their shapes and values are drawn with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Array = np.ndarray[Any, Any]
Build = Callable[[Any, Draw, Callable[..., Any]], Any]
"""Makes ops of TensorFlow: given its raw ops, a way to draw, and one to feed a value."""

CASES: dict[str, Build] = {}
SIZES = st.integers(1, 5)


def case(*types: str) -> Callable[[Build], Build]:
    def put(build: Build) -> Build:
        for each in types:
            CASES[each] = build
        return build

    return put


def numbers(shape: Sequence[int], seed: int, kind: str = "f4", *, positive: bool = False) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "b1":
        return rng.random(shape) < 0.5
    if kind.startswith(("i", "u")):
        return rng.integers(1 if positive else -6, 7, shape).astype(kind)
    # Few different values, so that ties and zeros come up.
    value = rng.integers(-8, 9, shape) / 4 if rng.random() < 0.5 else rng.standard_normal(shape)
    return np.asarray(np.abs(value) + 0.25 if positive else value, kind)


def shape_of(draw: Draw, least: int = 0, most: int = 4) -> tuple[int, ...]:
    return tuple(draw(st.lists(SIZES, min_size=least, max_size=most)))


def seed_of(draw: Draw) -> int:
    return int(draw(st.integers(0, 2**20)))


def partner(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast to *shape*, with fewer axes or sizes of one."""
    cut = shape[draw(st.integers(0, len(shape))) :]
    return tuple(1 if draw(st.booleans()) else size for size in cut)


def an_image(draw: Draw, channels: int) -> Array:
    n, h, w = draw(st.integers(1, 2)), draw(st.integers(3, 9)), draw(st.integers(3, 9))
    return numbers((n, h, w, channels), seed_of(draw))


def some_windows(draw: Draw) -> dict[str, Any]:
    strides = [1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1]
    return {"strides": strides, "padding": draw(st.sampled_from(["SAME", "VALID"]))}


def some_boxes(draw: Draw, count: int) -> Array:
    rng = np.random.default_rng(seed_of(draw))
    first = rng.random((count, 2)) - 0.2
    return np.concatenate([first, first + rng.random((count, 2))], 1).astype(np.float32)
