"""Ops that pool, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import SIZES, Draw, an_image, case, some_windows


@case("MaxPool", "MaxPoolGrad", "AvgPool", "AvgPoolGrad")
def _pooled(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(st.integers(1, 3)))
    x = feed(image)
    said = {**some_windows(draw), "ksize": [1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1]}
    largest, mean = ops.MaxPool(input=x, **said), ops.AvgPool(value=x, **said)
    return [
        largest,
        mean,
        ops.MaxPoolGrad(orig_input=x, orig_output=largest, grad=mean, **said),
        ops.AvgPoolGrad(orig_input_shape=np.array(image.shape, np.int32), grad=mean, **said),
    ]


@case("LRN")
def _lrn(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    return ops.LRN(
        input=feed(an_image(draw, draw(SIZES))),
        depth_radius=draw(st.integers(1, 3)),
        bias=1.5,
        alpha=0.3,
        beta=0.75,
    )
