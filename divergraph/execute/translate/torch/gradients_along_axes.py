"""Ways back of what averages or resizes each axis by itself: the transposed matrix of each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from divergraph.execute.contract import Array
from divergraph.execute.translate.torch.call import TorchCall, row
from divergraph.execute.translate.torch.windows import along_axes

_SOURCE = "torch.autograd; derivatives of the functions of torch"
_BEGIN = 2


def _pulled_back(call: TorchCall, matrices: Sequence[Array]) -> Sequence[str | None]:
    """The gradient by what each of *matrices*, of the shape (made, read), was applied to, an axis
    behind batch and channels each."""
    result, rank = call.gradient(), len(call.shape())
    for axis, matrix in enumerate(matrices, start=_BEGIN):
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        turned = call.add("MatMul", call.piece.transpose(result, *order), call.constant(matrix))
        result = call.piece.transpose(turned, *order)
    return call.gradients({"0": result})


@row("interpolate.backward", "upsample.backward", "Upsample.backward", source=_SOURCE)
def _interpolate_back(call: TorchCall) -> Sequence[str | None]:
    how = call.word(3, "mode", "nearest")
    if how not in ("nearest", *_NEIGHBOURS) or call.flag(6, "antialias"):
        raise call.refused(f"resizes by {how}")
    sizes = list(zip(call.gradient_shape()[_BEGIN:], call.shape()[_BEGIN:], strict=True))
    factors = call.argument(2, "scale_factor")
    listed = factors if isinstance(factors, tuple) else (factors,) * len(sizes)
    is_used = not call.flag(5, "recompute_scale_factor")
    times = [factor if is_used and isinstance(factor, int | float) else 0.0 for factor in listed]
    is_even = call.flag(4, "align_corners")
    return _pulled_back(
        call,
        [
            _resizing(
                outputs, read, 1 / by if by else read / outputs, _NEIGHBOURS.get(how, 1), is_even
            )
            for (outputs, read), by in zip(sizes, times, strict=True)
        ],
    )


_NEIGHBOURS = {"linear": 2, "bilinear": 2, "trilinear": 2, "bicubic": 4}
"""How many values along an axis each one is made of."""
_CUBIC = -0.75
"""The slope of PyTorch's cubic kernel where it reaches 0 (Keys, 1981, has -0.5)."""


def _shares(apart: Array, neighbours: int) -> Array:
    """What those have that lie so far *apart*, in steps of the values that are read."""
    if neighbours == 2:
        return np.maximum(1.0 - apart, 0.0)
    near = ((_CUBIC + 2) * apart - (_CUBIC + 3)) * apart**2 + 1
    far = _CUBIC * (((apart - 5) * apart + 8) * apart - 4)
    return np.where(apart <= 1, near, np.where(apart < 2, far, 0.0))


def _resizing(outputs: int, read: int, step: float, neighbours: int, is_even: bool) -> Array:
    """Which share of each value that is read each that is made has."""
    result = np.zeros((outputs, read))
    if is_even:
        step = (read - 1) / max(outputs - 1, 1)
    for place in range(outputs):
        if neighbours == 1:
            result[place, min(int(place * step), read - 1)] = 1.0
            continue
        at = place * step if is_even else (place + 0.5) * step - 0.5
        at = max(at, 0.0) if neighbours == 2 else at
        taken = math.floor(at) + np.arange(neighbours) - (neighbours // 2 - 1)
        np.add.at(result[place], taken.clip(0, read - 1), _shares(np.abs(taken - at), neighbours))
    return result


@row("avg_pool1d.backward", "avg_pool2d.backward", "avg_pool3d.backward", source=_SOURCE)
def _average_pool_back(call: TorchCall) -> Sequence[str | None]:
    kernel = call.integers(1, "kernel_size")
    if call.argument(6, "divisor_override") is not None or call.flag(4, "ceil_mode"):
        raise call.refused("divides by another number, or has windows that reach out")
    counted = call.flag(5, "count_include_pad", default=True)
    sizes = along_axes(call, kernel)
    steps = along_axes(call, call.integers(2, "stride", kernel) or kernel)
    pads = along_axes(call, call.integers(3, "padding", (0,)))
    matrices = []
    for axis, (size, step, pad) in enumerate(zip(sizes, steps, pads, strict=True), start=_BEGIN):
        matrix = np.zeros((call.gradient_shape()[axis], call.shape()[axis]))
        for place, shares in enumerate(matrix):
            begin = place * step - pad
            inside = shares[max(begin, 0) : begin + size]
            inside[:] = 1.0 / (size if counted else len(inside))
        matrices.append(matrix)
    return _pulled_back(call, matrices)


@row(*(f"{pool}{axes}d.backward" for pool in ("adaptive_avg_pool", "AdaptiveAvgPool", "AvgPool")
       for axes in (1, 2, 3)), source=_SOURCE)  # fmt: skip
def _adaptive_pool_back(call: TorchCall) -> Sequence[str | None]:
    matrices = []
    for outputs, read in zip(call.gradient_shape()[_BEGIN:], call.shape()[_BEGIN:], strict=True):
        matrix = np.zeros((outputs, read))
        for place, shares in enumerate(matrix):
            begin, end = place * read // outputs, math.ceil((place + 1) * read / outputs)
            shares[begin:end] = 1.0 / (end - begin)
        matrices.append(matrix)
    return _pulled_back(call, matrices)
