"""Layers that slide a window: convolutions, pooling, im2col."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count
from divergraph.values.array_types import Array
from importers.caffe.shapes import spatial

_POOLS = ("MAX", "AVE", "STOCHASTIC")
_LEAST = float(np.finfo(np.float32).min)
_TINY = float(np.finfo(np.float32).tiny)


@row("Convolution", source="conv and base_conv")
def _convolution(layer: CaffeLayer) -> list[str]:
    return _convolved(layer, "Conv")


@row("Deconvolution", source="deconv and base_conv")
def _deconvolution(layer: CaffeLayer) -> list[str]:
    return _convolved(layer, "ConvTranspose")


@row(
    *("ConvolutionDepthwise", "DepthwiseConvolution"),
    source="yonghenglh6/DepthwiseConvolution, depthwise_conv_layer.cpp",
)
def _depthwise(layer: CaffeLayer) -> list[str]:
    return _convolved(layer, "Conv", groups=layer.shape()[1])


def _convolved(layer: CaffeLayer, kind: str, groups: int | None = None) -> list[str]:
    """Each bottom convolved with the same weights."""
    block = "convolution_param"
    outputs = layer.integer(f"{block}.num_output", 0)
    axis = layer.axis(f"{block}.axis", 1)
    shape = layer.shape()
    sizes = shape[axis + 1 :]
    kernel, strides, pads, dilations = _settings(layer, len(sizes))
    groups = layer.integer(f"{block}.group", 1) if groups is None else groups
    if groups < 1 or outputs < 1 or shape[axis] % groups or outputs % groups:
        raise layer.refused(f"has {shape[axis]} channels, {outputs} outputs, {groups} groups")
    first, second = (outputs, shape[axis]) if kind == "Conv" else (shape[axis], outputs)
    weight = layer.weight(0, first, second // groups, *kernel)
    bias = layer.weight(1, outputs) if layer.flag(f"{block}.bias_term", True) else None
    results = []
    for at, bottom in enumerate(layer.bottoms):
        around = layer.shape(at)[:axis]
        source = bottom if axis == 1 else layer.reshape(bottom, (count(around), *shape[axis:]))
        value = layer.add(
            kind,
            *(source, weight, bias),
            kernel_shape=kernel,
            strides=strides,
            pads=[*pads, *pads],
            dilations=dilations,
            group=groups,
        )
        if axis != 1:
            value = layer.reshape(
                value, [_static(d) for d in layer.expected([layer.shape(at)])[0] or ()]
            )
        results.append(value)
    return results


def _static(size: int | None) -> int:
    return -1 if size is None else size


def _settings(layer: CaffeLayer, rank: int) -> list[list[int]]:
    """Kernel, strides, padding and dilation along each spatial axis."""
    words = (("kernel_size", "kernel", 0), ("stride", "stride", 1), ("pad", "pad", 0))
    values = [spatial(layer.settings, both, one, rank, usual) for both, one, usual in words]
    values.append(spatial(layer.settings, "dilation", "dilation", rank, 1))
    settings = [numbers for numbers in values if numbers is not None]
    if (
        len(settings) < len(values)
        or min((*settings[0], *settings[1], *settings[3]), default=1) < 1
    ):
        raise layer.refused(f"has no kernel for {rank} spatial axes")
    return settings


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows along one spatial axis of *size*: as many as ``tops``, the first *pad* before
    the data."""

    size: int
    kernel: int
    stride: int
    pad: int
    tops: int

    @property
    def behind(self) -> int:
        """Elements the last window reaches behind the data."""
        return max(0, (self.tops - 1) * self.stride + self.kernel - self.size - self.pad)

    @property
    def counted(self) -> Array:
        """The elements of each window an average is divided by: those in the data and in Caffe's
        own padding on both sides, not those behind."""
        starts = np.arange(self.tops) * self.stride - self.pad
        return np.minimum(starts + self.kernel, self.size + self.pad) - starts


def windows(layer: CaffeLayer, size: Sequence[int]) -> list[Windows]:
    """The windows of a pooling layer along both axes."""
    if layer.flag("pooling_param.global_pooling", False):
        return [Windows(size_of_axis, size_of_axis, 1, 0, 1) for size_of_axis in size]
    kernel, strides, pads, _ = _settings(layer, 2)
    top_shape = layer.expected([layer.shape()])[0]
    assert top_shape is not None
    tops = [_static(dim) for dim in top_shape[2:]]
    if min(tops) < 1:
        raise layer.refused(f"has no window in {tuple(size)}")
    return [
        Windows(*numbers_of_axis)
        for numbers_of_axis in zip(size, kernel, strides, pads, tops, strict=True)
    ]


@row("Pooling", source="pooling")
def _pooling(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    if len(shape) != 4:
        raise layer.refused(f"pools {len(shape)} axes; Caffe pools four")
    kind = layer.choice("pooling_param.pool", _POOLS, "MAX")
    return pooled(layer, layer.bottom(), windows(layer, shape[2:]), kind)[: layer.tops]


def pooled(
    layer: CaffeLayer, tensor: str, windows_of_axes: Sequence[Windows], kind: str
) -> list[str]:
    """A blob of four axes pooled; with the place of each largest element for MAX."""
    if kind == "MAX":
        return _largest(layer, tensor, windows_of_axes)
    if kind == "AVE":
        return [_averages(layer, tensor, windows_of_axes)]
    if layer.is_training:
        raise layer.refused("draws numbers in the phase TRAIN")
    # Each element is weighted by its share in the sum of its window.
    area = count([axis_windows.kernel for axis_windows in windows_of_axes])
    total = layer.add("Mul", _plain_average(layer, tensor, windows_of_axes), layer.number(area))
    square = layer.add("Mul", tensor, tensor)
    squares = layer.add("Mul", _plain_average(layer, square, windows_of_axes), layer.number(area))
    return [layer.add("Div", squares, layer.add("Add", total, layer.number(_TINY)))]


def _largest(layer: CaffeLayer, tensor: str, windows_of_axes: Sequence[Windows]) -> list[str]:
    before, pad_ends = (
        [axis_windows.pad for axis_windows in windows_of_axes],
        [axis_windows.behind for axis_windows in windows_of_axes],
    )
    kernel = [axis_windows.kernel for axis_windows in windows_of_axes]
    if any(
        ends >= size for ends, size in zip((*before, *pad_ends), (*kernel, *kernel), strict=True)
    ):
        if layer.tops > 1:
            raise layer.refused("tells places in windows without an element")
        tensor = _padded(layer, tensor, before, pad_ends, _LEAST)
        before = pad_ends = [0, 0]
    values, places = layer.piece.add_many(
        "MaxPool",
        2,
        tensor,
        kernel_shape=kernel,
        strides=[axis_windows.stride for axis_windows in windows_of_axes],
        pads=[*before, *pad_ends],
    )
    plane = layer.piece.const(
        np.array(count([axis_windows.size for axis_windows in windows_of_axes]), np.int64)
    )
    if layer.tops == 1:
        return [values]
    return [values, layer.piece.cast(layer.add("Mod", places, plane), layer.dtype)]


def _averages(layer: CaffeLayer, tensor: str, windows_of_axes: Sequence[Windows]) -> str:
    """The sum of each window divided by the elements counted in it."""
    average = _plain_average(layer, tensor, windows_of_axes)
    with np.errstate(divide="ignore"):
        rows, columns = (
            axis_windows.kernel / axis_windows.counted for axis_windows in windows_of_axes
        )
    share = np.outer(rows, columns)
    return average if (share == 1).all() else layer.add("Mul", average, layer.array(share))


def _plain_average(layer: CaffeLayer, tensor: str, windows_of_axes: Sequence[Windows]) -> str:
    """The sum of each window divided by its whole size; what is outside of the data is zero."""
    before, pad_ends = (
        [axis_windows.pad for axis_windows in windows_of_axes],
        [axis_windows.behind for axis_windows in windows_of_axes],
    )
    if any((*before, *pad_ends)):
        tensor = _padded(layer, tensor, before, pad_ends, 0.0)
    return layer.add(
        "AveragePool",
        tensor,
        kernel_shape=[axis_windows.kernel for axis_windows in windows_of_axes],
        strides=[axis_windows.stride for axis_windows in windows_of_axes],
    )


def _padded(
    layer: CaffeLayer, tensor: str, before: Sequence[int], pad_ends: Sequence[int], value: float
) -> str:
    ends = layer.piece.ints(0, 0, *before, 0, 0, *pad_ends)
    return layer.add("Pad", tensor, ends, layer.number(value))


@row("SPP", source="spp")
def _spatial_pyramid(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    height = layer.integer("spp_param.pyramid_height", 0)
    kind = layer.choice("spp_param.pool", _POOLS, "MAX")
    levels = []
    for level in range(height):
        windows_of_axes = [_bins(size, 2**level) for size in shape[2:]]
        levels.append(pooled(layer, layer.bottom(), windows_of_axes, kind)[0])
    if height == 1:
        return levels
    flat = [layer.reshape(level, (shape[0], shape[1] * 4**at)) for at, level in enumerate(levels)]
    return [layer.add("Concat", *flat, axis=1)]


def _bins(size: int, bins: int) -> Windows:
    kernel = math.ceil(size / bins)
    pad = (kernel * bins - size + 1) // 2
    tops = -(-(size + 2 * pad - kernel) // kernel) + 1
    if pad and (tops - 1) * kernel >= size + pad:
        tops -= 1
    return Windows(size, kernel, kernel, pad, tops)


@row("Im2col", source="im2col")
def _im2col(layer: CaffeLayer) -> list[str]:
    channels, *sizes = layer.shape()[layer.axis("convolution_param.axis", 1) :]
    kernel, strides, pads, dilations = _settings(layer, len(sizes))
    cells = count(kernel)
    one = np.eye(cells, dtype=layer.dtype).reshape(cells, 1, *kernel)
    chosen = np.tile(one, (channels, *(1 for _ in range(one.ndim - 1))))
    return [
        layer.add(
            "Conv",
            *(layer.bottom(), layer.piece.const(chosen)),
            kernel_shape=kernel,
            strides=strides,
            pads=[*pads, *pads],
            dilations=dilations,
            group=channels,
        )
    ]
