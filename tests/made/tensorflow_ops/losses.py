"""Ops of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import Draw, case, numbers, seed_of, shape_of


@case("Softmax", "LogSoftmax", "SoftmaxCrossEntropyWithLogits")
def _softmax(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 2)
    x = feed(numbers(shape, seed_of(draw)))
    labels = feed(np.random.default_rng(1).dirichlet(np.ones(shape[1]), shape[0]).astype("f4"))
    return [
        ops.Softmax(logits=x),
        ops.LogSoftmax(logits=x),
        *ops.SoftmaxCrossEntropyWithLogits(features=x, labels=labels),
    ]


@case("SparseSoftmaxCrossEntropyWithLogits")
def _sparse(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = shape_of(draw, 2, 2)
    labels = np.random.default_rng(seed_of(draw)).integers(0, shape[1], shape[0])
    kind = draw(st.sampled_from(["i4", "i8"]))
    return list(
        ops.SparseSoftmaxCrossEntropyWithLogits(
            features=feed(numbers(shape, seed_of(draw))), labels=feed(labels.astype(kind))
        )
    )
