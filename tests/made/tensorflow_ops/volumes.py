"""Ops on volumes, and pools that say where their largest elements are."""

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


def _volume(draw: Draw, channels: int) -> np.ndarray[Any, Any]:
    sizes = [draw(st.integers(2, 5)) for _ in range(3)]
    return numbers((draw(st.integers(1, 2)), *sizes, channels), seed_of(draw))


def _over(draw: Draw) -> dict[str, Any]:
    steps = [draw(st.integers(1, 2)) for _ in range(3)]
    return {"strides": [1, *steps, 1], "padding": draw(st.sampled_from(["SAME", "VALID"]))}


@case("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
def _convolved(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = _volume(draw, draw(st.integers(1, 2)))
    kernel = (*(draw(st.integers(1, 2)) for _ in range(3)), image.shape[4], draw(SIZES))
    x, filters, said = feed(image), feed(numbers(kernel, seed_of(draw))), _over(draw)
    out = ops.Conv3D(input=x, filter=filters, **said)
    return [
        out,
        ops.Conv3DBackpropInputV2(
            input_sizes=np.array(image.shape, np.int32), filter=filters, out_backprop=out, **said
        ),
        ops.Conv3DBackpropFilterV2(
            input=x, filter_sizes=np.array(kernel, np.int32), out_backprop=out, **said
        ),
    ]


@case("MaxPool3D", "MaxPool3DGrad", "AvgPool3D", "AvgPool3DGrad")
def _pooled(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    shape = _volume(draw, 2).shape
    # Different elements: which of equal ones a volume's kernel takes is not said.
    image = np.random.default_rng(seed_of(draw)).permutation(int(np.prod(shape)))
    image = (image.reshape(shape) / 7).astype("f4")
    x = feed(image)
    said = {**_over(draw), "ksize": [1, *(draw(st.integers(1, 2)) for _ in "dhw"), 1]}
    largest, mean = ops.MaxPool3D(input=x, **said), ops.AvgPool3D(input=x, **said)
    return [
        largest,
        mean,
        ops.MaxPool3DGrad(orig_input=x, orig_output=largest, grad=mean, **said),
        ops.AvgPool3DGrad(orig_input_shape=np.array(shape, np.int32), grad=mean, **said),
    ]


@case("MaxPoolWithArgmax", "MaxPoolGradWithArgmax", "MaxPoolV2", "MaxPoolGradV2")
def _with_places(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(st.integers(1, 3)))
    x, over = feed(image), some_windows(draw)
    size = [1, draw(st.integers(1, 3)), draw(st.integers(1, 3)), 1]
    kind = {"Targmax": "int64"}
    batch = {"include_batch_in_index": draw(st.booleans())}
    largest, places = ops.MaxPoolWithArgmax(input=x, ksize=size, **over, **kind, **batch)
    gradient = feed(numbers(largest.shape, seed_of(draw)))
    steps, padding = np.array(over["strides"], np.int32), over["padding"]
    window = {"ksize": np.array(size, np.int32), "strides": steps, "padding": padding}
    return [
        largest,
        places,
        ops.MaxPoolGradWithArgmax(
            input=x, grad=gradient, argmax=places, ksize=size, **over, **batch
        ),
        ops.MaxPoolV2(input=x, **window),
        ops.MaxPoolGradV2(orig_input=x, orig_output=largest, grad=gradient, **window),
        ops.MaxPoolGradGradV2(
            orig_input=x, orig_output=largest, grad=feed(numbers(image.shape, 3)), **window
        ),
        ops.MaxPoolGradGrad(
            orig_input=x,
            orig_output=largest,
            grad=feed(numbers(image.shape, 3)),
            ksize=size,
            **over,
        ),
    ]


@case("LRNGrad")
def _lrn_grad(ops: Any, draw: Draw, feed: Callable[..., Any]) -> Any:
    image = an_image(draw, draw(SIZES))
    said = {"depth_radius": draw(st.integers(1, 3)), "bias": 1.5, "alpha": 0.3, "beta": 0.75}
    x = feed(image)
    out = ops.LRN(input=x, **said)
    gradient = feed(numbers(image.shape, seed_of(draw)))
    return ops.LRNGrad(input_grads=gradient, input_image=x, output_image=out, **said)
