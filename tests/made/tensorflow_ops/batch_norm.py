"""Ops of batch normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import Draw, an_image, case, numbers


@case("FusedBatchNormV3", "FusedBatchNormGradV3", "FusedBatchNorm", "FusedBatchNormGrad")
def _batch_norm(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(st.integers(1, 4)))
    channels = (image.shape[3],)
    training = draw(st.booleans())
    empty = np.zeros(0, np.float32)
    scale = feed(numbers(channels, 1))
    made = ops.FusedBatchNormV3(
        x=feed(image),
        scale=scale,
        offset=feed(numbers(channels, 2)),
        mean=empty if training else feed(numbers(channels, 3)),
        variance=empty if training else feed(numbers(channels, 4, positive=True)),
        epsilon=draw(st.sampled_from([1e-3, 1e-5])),
        is_training=training,
    )
    back = ops.FusedBatchNormGradV3(
        y_backprop=feed(numbers(image.shape, 5)),
        x=feed(image),
        scale=scale,
        reserve_space_1=feed(numbers(channels, 6)),
        reserve_space_2=feed(numbers(channels, 7, positive=True)),
        reserve_space_3=empty,
        epsilon=1e-3,
        is_training=training,
    )
    return [*made[:5], *back[:3]]
