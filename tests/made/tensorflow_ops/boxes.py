"""Ops on boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import (
    SIZES,
    Draw,
    an_image,
    case,
    numbers,
    seed_of,
    some_boxes,
)


@case("NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")
def _kept_boxes(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    count = draw(st.integers(1, 12))
    boxes = {
        "boxes": feed(some_boxes(draw, count)),
        "scores": feed(numbers((count,), seed_of(draw))),
        "max_output_size": feed(np.int32(draw(st.integers(1, 8)))),
        "iou_threshold": feed(np.float32(draw(st.sampled_from([0.1, 0.5])))),
    }
    least = feed(np.float32(draw(st.sampled_from([-1.0, 0.1]))))
    return [
        ops.NonMaxSuppressionV2(**boxes),
        ops.NonMaxSuppressionV3(**boxes, score_threshold=least),
        *ops.NonMaxSuppressionV4(
            **boxes, score_threshold=least, pad_to_max_output_size=draw(st.booleans())
        ),
    ]


@case("CropAndResize")
def _cropped(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image, count = an_image(draw, 2), draw(SIZES)
    of = np.random.default_rng(seed_of(draw)).integers(0, image.shape[0], count)
    return ops.CropAndResize(
        image=feed(image),
        boxes=feed(some_boxes(draw, count)),
        box_ind=feed(of.astype(np.int32)),
        crop_size=np.array([draw(SIZES), draw(SIZES)], np.int32),
        method=draw(st.sampled_from(["bilinear", "nearest"])),
        extrapolation_value=0.25,
    )
