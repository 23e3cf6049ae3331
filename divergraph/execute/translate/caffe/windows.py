"""Layers that slide a window: convolutions, pooling, im2col."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.caffe.shaping import count
from divergraph.execute.translate.piece import Expr
from divergraph.values.array_types import Array
from importers.caffe.shapes import spatial

_POOLS = ("MAX", "AVE", "STOCHASTIC")
_LEAST = float(np.finfo(np.float32).min)
_TINY = float(np.finfo(np.float32).tiny)


@row("Convolution", source="conv and base_conv")
def _convolution(layer: CaffeLayer) -> list[Expr]:
    return _convolved(layer, "Conv")


@row("Deconvolution", source="deconv and base_conv")
def _deconvolution(layer: CaffeLayer) -> list[Expr]:
    return _convolved(layer, "ConvTranspose")


@row(
    *("ConvolutionDepthwise", "DepthwiseConvolution"),
    source="yonghenglh6/DepthwiseConvolution, depthwise_conv_layer.cpp",
)
def _depthwise(layer: CaffeLayer) -> list[Expr]:
    return _convolved(layer, "Conv", groups=layer.shape()[1])


def _convolved(layer: CaffeLayer, kind: str, groups: int | None = None) -> list[Expr]:
    """Each bottom convolved with the same weights."""
    block = "convolution_param"
    outputs = layer.integer(f"{block}.num_output", 0)
    axis = layer.axis(f"{block}.axis", 1)
    shape = layer.shape()
    kernel, strides, pads, dilations = _settings(layer, len(shape[axis + 1 :]))
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
def _pooling(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    if len(shape) != 4:
        raise layer.refused(f"pools {len(shape)} axes; Caffe pools four")
    kind = layer.choice("pooling_param.pool", _POOLS, "MAX")
    return pooled(layer, layer.bottom(), windows(layer, shape[2:]), kind)[: layer.tops]


def pooled(
    layer: CaffeLayer, tensor: Expr, windows_of_axes: Sequence[Windows], kind: str
) -> list[Expr]:
    """A blob of four axes pooled; with the place of each largest element for MAX."""
    if kind == "MAX":
        return _largest(layer, tensor, windows_of_axes)
    if kind == "AVE":
        return [_averages(layer, tensor, windows_of_axes)]
    if layer.is_training:
        raise layer.refused("draws numbers in the phase TRAIN")
    # Each element is weighted by its share in the sum of its window.
    area = count([axis_windows.kernel for axis_windows in windows_of_axes])
    total = _plain_average(layer, tensor, windows_of_axes) * area
    squares = _plain_average(layer, tensor * tensor, windows_of_axes) * area
    return [squares / (total + _TINY)]


def _largest(layer: CaffeLayer, tensor: Expr, windows_of_axes: Sequence[Windows]) -> list[Expr]:
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


def _averages(layer: CaffeLayer, tensor: Expr, windows_of_axes: Sequence[Windows]) -> Expr:
    """The sum of each window divided by the elements counted in it."""
    average = _plain_average(layer, tensor, windows_of_axes)
    with np.errstate(divide="ignore"):
        rows, columns = (
            axis_windows.kernel / axis_windows.counted for axis_windows in windows_of_axes
        )
    share = np.outer(rows, columns)
    return average if (share == 1).all() else (average * layer.array(share))


def _plain_average(layer: CaffeLayer, tensor: Expr, windows_of_axes: Sequence[Windows]) -> Expr:
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
    layer: CaffeLayer, tensor: Expr, before: Sequence[int], pad_ends: Sequence[int], value: float
) -> Expr:
    ends = layer.piece.ints(0, 0, *before, 0, 0, *pad_ends)
    return layer.add("Pad", tensor, ends, layer.number(value))


@row("SPP", source="spp")
def _spatial_pyramid(layer: CaffeLayer) -> list[Expr]:
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
def _im2col(layer: CaffeLayer) -> list[Expr]:
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


# Layers that normalise, and the products with a whole matrix.


_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"


@row("InnerProduct", source="inner_product")
def _inner_product(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    axis = layer.axis("inner_product_param.axis", 1)
    outputs, inputs = layer.integer("inner_product_param.num_output", 0), count(shape[axis:])
    turned = layer.flag("inner_product_param.transpose", False)
    weight = layer.weight(0, *((inputs, outputs) if turned else (outputs, inputs)))
    has_bias = layer.flag("inner_product_param.bias_term", True)
    bias = layer.weight(1, outputs) if has_bias else None
    rows = layer.reshape(layer.bottom(), (count(shape[:axis]), inputs))
    value = layer.add("Gemm", rows, weight, bias, transB=int(not turned))
    return [value if axis == 1 else layer.reshape(value, (*shape[:axis], outputs))]


@row("Softmax", source="softmax")
def _softmax(layer: CaffeLayer) -> list[Expr]:
    return [layer.add("Softmax", layer.bottom(), axis=layer.axis("softmax_param.axis", 1))]


@row("LRN", source="lrn")
def _lrn(layer: CaffeLayer) -> list[Expr]:
    size = layer.integer("lrn_param.local_size", 5)
    alpha, beta = layer.real("lrn_param.alpha", 1.0), layer.real("lrn_param.beta", 0.75)
    names = ("ACROSS_CHANNELS", "WITHIN_CHANNEL")
    if layer.choice("lrn_param.norm_region", names, names[0]) == names[0]:
        bias = layer.real("lrn_param.k", 1.0)
        return [layer.add("LRN", layer.bottom(), size=size, alpha=alpha, beta=beta, bias=bias)]
    square = layer.bottom() * layer.bottom()
    pad = (size - 1) // 2
    windows_of_axes = [
        Windows(size_of_axis, size, 1, pad, size_of_axis + 2 * pad - size + 1)
        for size_of_axis in layer.shape()[2:]
    ]
    (mean,) = pooled(layer, square, windows_of_axes, "AVE")
    return [layer.bottom() * (mean * alpha + 1) ** (-beta)]


@row("BatchNorm", source="batch_norm; five blobs as in NVIDIA/caffe")
def _batch_norm(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    channels = shape[1] if len(shape) > 1 else 1
    across = (channels, *(1 for _ in shape[2:]))
    value = layer.bottom()
    if layer.flag("batch_norm_param.use_global_stats", not layer.is_training):
        mean, variance = layer.weight(0, *across), layer.weight(1, *across)
        if layer.weights > 2:
            by = _inverse(layer, layer.weight(2, 1))
            mean, variance = mean * by, variance * by
        value = value - mean
    else:
        axes = layer.piece.ints(0, *range(2, len(shape)))
        value = value - layer.add("ReduceMean", value, axes)
        variance = layer.add("ReduceMean", value * value, axes)
    eps = layer.number(layer.real("batch_norm_param.eps", 1e-5))
    value = value / (variance + eps).sqrt()
    if layer.weights > 4:
        value = value * layer.weight(3, *across)
        value = value + layer.weight(4, *across)
    return [value]


def _inverse(layer: CaffeLayer, factor: Expr) -> Expr:
    """1 / *factor*; 0 for a factor of 0, as in nets that were never trained."""
    nothing = layer.number(0)
    return layer.add("Where", factor.equals(nothing), nothing, 1 / factor)


@row("MVN", source="mvn")
def _mvn(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    start = 1 if layer.flag("mvn_param.across_channels", False) else 2
    axes = layer.piece.ints(*range(start, len(shape)))
    value = layer.bottom() - layer.add("ReduceMean", layer.bottom(), axes)
    if not layer.flag("mvn_param.normalize_variance", True):
        return [value]
    variance = layer.add("ReduceMean", value * value, axes)
    eps = layer.number(layer.real("mvn_param.eps", 1e-9))
    return [value / (variance.sqrt() + eps)]


@row("Normalize", source=_SSD.format("normalize"))
def _normalize(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    across = layer.flag("norm_param.across_spatial", True)
    axes = layer.piece.ints(*(range(1, len(shape)) if across else (1,)))
    total = layer.add("ReduceSumSquare", layer.bottom(), axes)
    eps = layer.number(layer.real("norm_param.eps", 1e-10))
    value = layer.bottom() / (total + eps).sqrt()
    channels = 1 if layer.flag("norm_param.channel_shared", True) else shape[1]
    return [value * layer.weight(0, channels, *(1 for _ in shape[2:]))]
