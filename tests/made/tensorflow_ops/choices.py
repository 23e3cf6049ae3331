"""Ops that count, compare, part, and round to grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, case, numbers, seed_of, shape_of


@case("DynamicPartition", "ListDiff", "InTopK", "LowerBound", "UpperBound", "UnravelIndex")
def _parted(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape, rng = shape_of(draw, 1, 3), np.random.default_rng(seed_of(draw))
    cut = draw(st.integers(1, len(shape)))
    parts = rng.integers(0, 3, shape[:cut]).astype(np.int32)
    rows, classes = draw(SIZES), draw(SIZES)
    predictions = numbers((rows, classes), seed_of(draw))
    if draw(st.booleans()):
        predictions[0, 0] = np.nan
    predicted, k = feed(predictions), draw(st.integers(1, 3))
    targets = feed(rng.integers(0, classes, rows).astype(np.int32))
    ordered = np.sort(numbers((2, draw(SIZES)), seed_of(draw)), 1)
    bounds = {"sorted_inputs": feed(ordered), "values": feed(numbers((2, 3), seed_of(draw)))}
    sides = [feed(rng.integers(0, 5, draw(st.integers(0, 5))).astype(np.int32)) for _ in "xy"]
    return [
        *ops.DynamicPartition(
            data=feed(numbers(shape, seed_of(draw))), partitions=feed(parts), num_partitions=3
        ),
        *ops.ListDiff(x=sides[0], y=sides[1]),
        ops.InTopK(predictions=predicted, targets=targets, k=k),
        ops.InTopKV2(predictions=predicted, targets=targets, k=np.int32(k)),
        ops.LowerBound(**bounds),
        ops.UpperBound(**bounds),
        ops.UnravelIndex(
            indices=feed(rng.integers(0, 24, 4).astype(np.int32)), dims=np.array([2, 3, 4], "i4")
        ),
    ]


_RANGES = {"num_bits": st.integers(4, 8), "narrow_range": st.booleans()}


@case(*(f"FakeQuantWithMinMax{kind}" for kind in ("Args", "Vars", "VarsPerChannel")))
def _on_grids(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 1, 3)
    rng = np.random.default_rng(seed_of(draw))
    x, gradient = feed(rng.standard_normal(shape).astype("f4")), feed(numbers(shape, 1))
    said = {name: draw(each) for name, each in _RANGES.items()}
    low, high = -float(rng.random() + 0.1), float(rng.random() + 0.2)
    ends = {"min": low, "max": high}
    one = {name: feed(np.float32(each)) for name, each in ends.items()}
    wide = {
        name: feed(np.float32(each) * (1 + rng.random(shape[-1]).astype("f4")))
        for name, each in ends.items()
    }
    return [
        ops.FakeQuantWithMinMaxArgs(inputs=x, **ends, **said),
        ops.FakeQuantWithMinMaxVars(inputs=x, **one, **said),
        ops.FakeQuantWithMinMaxVarsPerChannel(inputs=x, **wide, **said),
        ops.FakeQuantWithMinMaxArgsGradient(gradients=gradient, inputs=x, **ends, **said),
        *ops.FakeQuantWithMinMaxVarsGradient(gradients=gradient, inputs=x, **one, **said),
        *ops.FakeQuantWithMinMaxVarsPerChannelGradient(
            gradients=gradient, inputs=x, **wide, **said
        ),
    ]
