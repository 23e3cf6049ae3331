"""Ops along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import CASES, Build, Draw, case, numbers, seed_of, shape_of


def _reduction(kind: str) -> Build:
    def build(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
        shape = shape_of(draw)
        element = "b1" if kind in ("All", "Any") else "f4"
        axes = (
            draw(st.lists(st.integers(-len(shape), len(shape) - 1), unique=True)) if shape else []
        )
        axes = list({axis % len(shape): axis for axis in axes}.values())
        return getattr(ops, kind)(
            input=feed(numbers(shape, seed_of(draw), element)),
            axis=np.array(axes, np.int32),
            keep_dims=draw(st.booleans()),
        )

    return build


for _kind in ("Sum", "Mean", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm"):
    CASES[_kind] = _reduction(_kind)


@case("ArgMax", "ArgMin")
def _arg(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    x = feed(numbers(shape, seed_of(draw)))
    axis = np.int32(draw(st.integers(-len(shape), len(shape) - 1)))
    kind = draw(st.sampled_from(["int32", "int64"]))
    return [
        ops.ArgMax(input=x, dimension=axis, output_type=kind),
        ops.ArgMin(input=x, dimension=axis, output_type=kind),
    ]


@case("Cumsum")
def _cumsum(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1)
    return ops.Cumsum(
        x=feed(numbers(shape, seed_of(draw))),
        axis=np.int32(draw(st.integers(-len(shape), len(shape) - 1))),
        exclusive=draw(st.booleans()),
        reverse=draw(st.booleans()),
    )
