"""Ops that convolve, and their gradients."""

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
    some_windows,
)


@case("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "BiasAdd", "BiasAddGrad")
def _convolved(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(st.integers(1, 3)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), image.shape[3], draw(SIZES))
    x, filters = feed(image), feed(numbers(kernel, seed_of(draw)))
    said = some_windows(draw)
    if draw(st.booleans()):
        said = {"strides": [1, 1, 1, 1], "padding": said["padding"], "dilations": [1, 2, 2, 1]}
        if min(image.shape[1:3]) < 5:
            said["padding"] = "SAME"
    out = ops.Conv2D(input=x, filter=filters, **said)
    if "dilations" in said:  # TensorFlow's CPU kernels have no gradients of these
        return out
    back = ops.Conv2DBackpropInput(
        input_sizes=np.array(image.shape, np.int32), filter=filters, out_backprop=out, **said
    )
    weights = ops.Conv2DBackpropFilter(
        input=x, filter_sizes=np.array(kernel, np.int32), out_backprop=out, **said
    )
    bias = feed(numbers((kernel[3],), 1))
    return [
        out,
        back,
        weights,
        ops.BiasAdd(value=out, bias=bias),
        ops.BiasAddGrad(out_backprop=out),
    ]


@case("Conv2D with explicit padding")
def _explicit(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    pads = [0, 0, *(draw(st.integers(0, 2)) for _ in range(4)), 0, 0]
    x, filters = feed(an_image(draw, 2)), feed(numbers((3, 3, 2, 4), seed_of(draw)))
    strides = [1, draw(st.integers(1, 2)), draw(st.integers(1, 2)), 1]
    said = {"strides": strides, "padding": "EXPLICIT", "explicit_paddings": pads}
    return ops.Conv2D(input=x, filter=filters, **said)


_DEPTHWISE = "DepthwiseConv2dNative"


@case(_DEPTHWISE, f"{_DEPTHWISE}BackpropInput", f"{_DEPTHWISE}BackpropFilter")
def _depthwise(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(st.integers(1, 3)))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), image.shape[3], draw(SIZES))
    x, filters = feed(image), feed(numbers(kernel, seed_of(draw)))
    step = draw(st.integers(1, 2))
    said = {"strides": [1, step, step, 1], "padding": draw(st.sampled_from(["SAME", "VALID"]))}
    out = ops.DepthwiseConv2dNative(input=x, filter=filters, **said)
    return [
        out,
        ops.DepthwiseConv2dNativeBackpropInput(
            input_sizes=np.array(image.shape, np.int32), filter=filters, out_backprop=out, **said
        ),
        ops.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=np.array(kernel, np.int32), out_backprop=out, **said
        ),
    ]
