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


KERNELS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle")


@case("ScaleAndTranslate", "ScaleAndTranslateGrad")
def _sampled(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, 2)
    x = feed(image)
    wanted = [draw(st.integers(1, 15)) for _ in range(2)]
    said = {
        "scale": [draw(st.sampled_from([0.3, 1.0, 1.7, 4.0])) for _ in range(2)],
        "translation": [draw(st.sampled_from([-1.5, 0.0, 0.6])) for _ in range(2)],
        "kernel_type": draw(st.sampled_from([*KERNELS, "keyscubic", "mitchellcubic"])),
        "antialias": draw(st.booleans()),
    }
    made = ops.ScaleAndTranslate(images=x, size=wanted, **said)
    return [made, ops.ScaleAndTranslateGrad(grads=made, original_image=x, **said)]
