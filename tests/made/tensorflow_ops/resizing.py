"""Ops that resize images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.made.tensorflow_ops.drawing import Draw, an_image, case


@case("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBilinearGrad")
def _resized(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, 2)
    x = feed(image)
    wanted = np.array([draw(st.integers(1, 12)), draw(st.integers(1, 12))], np.int32)
    how = draw(st.sampled_from([{}, {"align_corners": True}, {"half_pixel_centers": True}]))
    bent = ops.ResizeBilinear(images=x, size=wanted, **how)
    copied = ops.ResizeNearestNeighbor(images=x, size=wanted, **how)
    back = np.array(image.shape[1:3], np.int32)
    return [
        bent,
        copied,
        ops.ResizeBilinearGrad(grads=bent, original_image=x, **how),
        ops.ResizeNearestNeighborGrad(grads=copied, size=back, **how),
    ]


@case("ResizeBicubic", "ResizeBicubicGrad", "ResizeArea")
def _smoothed(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, 2)
    x = feed(image)
    wanted = np.array([draw(st.integers(1, 20)), draw(st.integers(1, 20))], np.int32)
    how = draw(st.sampled_from([{}, {"align_corners": True}, {"half_pixel_centers": True}]))
    bent = ops.ResizeBicubic(images=x, size=wanted, **how)
    aligned = {"align_corners": True} if "align_corners" in how else {}
    return [
        bent,
        ops.ResizeBicubicGrad(grads=bent, original_image=x, **how),
        ops.ResizeArea(images=x, size=wanted, **aligned),
    ]
