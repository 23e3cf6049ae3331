"""Convolutions and their gradients. TensorFlow's filters are height, width, in, out; ONNX's are
out, in, height, width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from divergraph.execute.translate.contract import NotTranslatedError
from divergraph.execute.translate.piece import Expr, Outputs, Piece
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters


@ROWS.row("Conv2D", "Conv3D", source=NN)
def convolution(p: Piece) -> Outputs:
    """A convolution; filters with fewer inputs than the image has channels make groups."""
    spatial = _spatial(p)
    layout = images(p, spatial)
    over = windows(p, layout, layout.sizes(p.shape(0)), p.shape(1)[:spatial])
    filters = p.transpose(p.name(1), spatial + 1, spatial, *range(spatial))
    groups = p.shape(0)[layout.axis] // p.shape(1)[spatial]
    made = _conv(p, layout.to_first(p, p.name(0)), filters, over, groups)
    return [layout.from_first(p, made)]


def _conv(p: Piece, image: Expr, filters: Expr, over: SlidingWindows, groups: int) -> Expr:
    return p.add(
        "Conv",
        image,
        filters,
        strides=over.strides,
        dilations=over.dilations,
        pads=over.pads,
        group=groups,
    )


@ROWS.row("DepthwiseConv2dNative", source=NN)
def depthwise(p: Piece) -> Outputs:
    """A convolution of each channel by itself, with some filters each."""
    layout = images(p)
    high, wide, channels, _many = p.shape(1)
    over = windows(p, layout, layout.sizes(p.shape(0)), (high, wide))
    image = layout.to_first(p, p.name(0))
    return [
        layout.from_first(p, _conv(p, image, _by_channel(p, p.name(1), p.shape(1)), over, channels))
    ]


def _by_channel(p: Piece, filters: Expr, shape: Sequence[int]) -> Expr:
    high, wide, channels, many = shape
    by_output = p.transpose(filters, 2, 3, 0, 1)
    return p.reshape(by_output, (channels * many, 1, high, wide))


_TAKES_TENSOR = ("Conv2DBackpropInputV2", "Conv2DBackpropFilterV2")
"""Gradients that take the image, or the filters, where the others take their shape."""


def _spatial(p: Piece) -> int:
    return 3 if p.op.type.startswith("Conv3D") else 2


def _shape(p: Piece, at: int) -> tuple[int, ...]:
    """The shape of what the op is the gradient of."""
    return p.shape(at) if p.op.type in _TAKES_TENSOR else p.integers(at)


@ROWS.row("Conv2DBackpropInput", "Conv2DBackpropInputV2", source=NN)
@ROWS.row("Conv3DBackpropInputV2", source=NN)
def convolution_input_gradient(p: Piece) -> Outputs:
    """The gradient of a convolution's image; also the transposed convolution."""
    spatial = _spatial(p)
    layout = images(p, spatial)
    shape = _shape(p, 0)
    short = len(shape) == spatial  # some writers give height and width alone
    sizes = shape if short else layout.sizes(shape)
    over = windows(p, layout, sizes, p.shape(1)[:spatial])
    inner = p.shape(1)[spatial]
    groups = 1 if short else shape[layout.axis] // inner
    filters = p.transpose(p.name(1), spatial + 1, spatial, *range(spatial))
    gradient = layout.to_first(p, p.name(2))
    return [layout.from_first(p, put_back(p, gradient, filters, over, sizes, groups))]


@ROWS.row("Conv2DBackpropFilter", "Conv2DBackpropFilterV2", source=NN)
@ROWS.row("Conv3DBackpropFilterV2", source=NN)
def convolution_filter_gradient(p: Piece) -> Outputs:
    """The gradient of a convolution's filters: the image convolved with the gradient."""
    spatial = _spatial(p)
    layout = images(p, spatial)
    shape = _shape(p, 1)
    over = windows(p, layout, layout.sizes(p.shape(0)), shape[:spatial])
    groups = p.shape(0)[layout.axis] // shape[spatial]
    correlated = _correlated(p, layout, over, groups, depthwise=False)
    return [p.transpose(correlated, *range(2, 2 + spatial), 0, 1)]


def _correlated(
    p: Piece, layout: Images, over: SlidingWindows, groups: int, *, depthwise: bool
) -> Expr:
    """The filters' gradient as in, out, height, width."""
    n = p.shape(0)[0]
    channels = p.shape(0)[layout.axis]
    sizes = layout.sizes(p.shape(0))
    along = range(2, 2 + layout.spatial)
    image = p.transpose(layout.to_first(p, p.name(0)), 1, 0, *along)
    gradient = p.transpose(layout.to_first(p, p.name(2)), 1, 0, *along)
    if groups > 1 or depthwise:
        inner = channels // groups
        # in / groups, groups x batch: each group is convolved with its own gradients
        image = p.reshape(image, (groups, inner, n, *sizes))
        image = p.transpose(image, 1, 0, 2, *(at + 1 for at in along))
        image = p.reshape(image, (inner, groups * n, *sizes))
    return seen_by_filters(p, image, gradient, over, groups)


@ROWS.row("DepthwiseConv2dNativeBackpropInput", source=NN)
def depthwise_input_gradient(p: Piece) -> Outputs:
    """The gradient of a depthwise convolution's image."""
    layout = images(p)
    sizes = layout.sizes(p.integers(0))
    over = windows(p, layout, sizes, p.shape(1)[:2])
    filters = _by_channel(p, p.name(1), p.shape(1))
    gradient = layout.to_first(p, p.name(2))
    return [layout.from_first(p, put_back(p, gradient, filters, over, sizes, p.shape(1)[2]))]


@ROWS.row("DepthwiseConv2dNativeBackpropFilter", source=NN)
def depthwise_filter_gradient(p: Piece) -> Outputs:
    """The gradient of a depthwise convolution's filters."""
    layout = images(p)
    high, wide, channels, many = p.integers(1)
    over = windows(p, layout, layout.sizes(p.shape(0)), (high, wide))
    correlated = _correlated(p, layout, over, channels, depthwise=True)
    split = p.reshape(correlated, (channels, many, high, wide))
    return [p.transpose(split, 2, 3, 0, 1)]


# Images with channels last, as TensorFlow holds them, and first, as ONNX computes them.


_FORMATS = {"NHWC": False, "NCHW": True, "NDHWC": False, "NCDHW": True}


@dataclass(frozen=True, slots=True)
class Images:
    """How an op holds its images: with channels first, or not; ``spatial`` axes each."""

    first: bool
    spatial: int

    @property
    def axis(self) -> int:
        """The axis of the channels."""
        return 1 if self.first else self.spatial + 1

    @property
    def places(self) -> range:
        """The axes of height and width."""
        return range(2, 2 + self.spatial) if self.first else range(1, 1 + self.spatial)

    def to_first(self, p: Piece, tensor: Expr) -> Expr:
        """The images with channels first."""
        rest = range(1, 1 + self.spatial)
        return tensor if self.first else p.transpose(tensor, 0, self.spatial + 1, *rest)

    def from_first(self, p: Piece, tensor: Expr) -> Expr:
        """Images with channels first as the op holds them."""
        return tensor if self.first else p.transpose(tensor, 0, *range(2, 2 + self.spatial), 1)

    def sizes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Height and width of a shape, or of an attribute with a number for each axis."""
        return tuple(int(shape[at]) for at in self.places)


def images(p: Piece, spatial: int = 2) -> Images:
    """How the op holds its images.

    Raises:
        NotTranslatedError: in a form of its own.
    """
    data_format = p.attr("data_format", "NHWC" if spatial == 2 else "NDHWC")
    if data_format not in _FORMATS:
        raise NotTranslatedError(f"{p.op.type} of images held as {data_format}")
    return Images(_FORMATS[data_format], spatial)


def windows(
    p: Piece,
    layout: Images,
    sizes: Sequence[int],
    kernel: Sequence[int],
    steps: Sequence[int] | None = None,
) -> SlidingWindows:
    """The windows of size *kernel* of an op over images of *sizes*; *steps* are its strides where
    they are an input and no attribute.

    Source: ``GetWindowedOutputSizeVerbose`` of core/framework/kernel_shape_util.cc: SAME pads so
    that there are ceil(size / stride) windows, the odd element behind; VALID does not pad.

    Raises:
        NotTranslatedError: a padding of another name.
    """
    every = [1] * (layout.spatial + 2)
    strides = layout.sizes(steps or p.attr("strides", tuple(every)))
    dilations = layout.sizes(p.attr("dilations", tuple(every)))
    padding = p.attr("padding")
    begin, end, out = [], [], []
    explicit = list(p.attr("explicit_paddings", ()))
    for at, axis in enumerate(layout.places):
        reach = (kernel[at] - 1) * dilations[at] + 1
        if padding == "SAME":
            count = -(-sizes[at] // strides[at])
            total_pad = max((count - 1) * strides[at] + reach - sizes[at], 0)
            pad = (total_pad // 2, total_pad - total_pad // 2)
        elif padding == "VALID":
            pad = (0, 0)
        elif padding == "EXPLICIT":
            pad = (explicit[2 * axis], explicit[2 * axis + 1])
        else:
            raise NotTranslatedError(f"{p.op.type} with padding {padding}")
        begin.append(pad[0])
        end.append(pad[1])
        out.append((sizes[at] + sum(pad) - reach) // strides[at] + 1)
    return SlidingWindows(tuple(kernel), strides, dilations, tuple(begin), tuple(end), tuple(out))


# Batch normalisation and its gradient, as TensorFlow's CPU kernel has them
# (core/kernels/fused_batch_norm_op.cc).


def _layout(p: Piece) -> Images:
    return images(p, p.rank(0) - 2)


def _along(layout: Images) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return tuple(at for at in range(layout.spatial + 2) if at != layout.axis)


def _wide(p: Piece, layout: Images, tensor: Expr) -> Expr:
    """One number for each channel, in the shape of the images."""
    if not layout.first:
        return tensor
    return p.add("Unsqueeze", tensor, p.ints(*range(1, 1 + layout.spatial)))


def _mean(p: Piece, layout: Images, tensor: Expr) -> Expr:
    return p.summed("ReduceMean", tensor, _along(layout))


def _sum(p: Piece, layout: Images, tensor: Expr) -> Expr:
    return p.summed("ReduceSum", tensor, _along(layout))


@ROWS.row("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", source=NN)
def fused_batch_norm(p: Piece) -> Outputs:
    """Images normalised, scaled and shifted by channel; mean and variance given or, in training,
    of the images themselves. The variance is given out for an unbiased estimate, kept as it is."""
    layout, image, scale, offset = _layout(p), p.name(0), p.name(1), p.name(2)
    eps = p.const(np.array(p.attr("epsilon", 1e-4), p.dtype(1)))
    if not p.attr("is_training", True):
        mean, variance = p.name(3), p.name(4)
        centred = image - _wide(p, layout, mean)
        out = _scaled(p, layout, centred, variance, eps, scale, offset)
        return [out, mean, variance]  # the rest is room for the gradient, which nobody fills
    count = int(np.prod([p.shape(0)[at] for at in _along(layout)], dtype=np.int64))
    mean = _mean(p, layout, image)
    centred = image - _wide(p, layout, mean)
    variance = _mean(p, layout, centred * centred)
    out = _scaled(p, layout, centred, variance, eps, scale, offset)
    unbiased = variance * (count / max(count - 1, 1))
    factor = float(p.attr("exponential_avg_factor", 1.0))
    # Of V3 a sixth output is room for other devices' kernels; the CPU's leaves it empty.
    rest = [mean, variance, p.const(np.zeros(0, np.float32))]
    if factor == 1.0:
        return [out, mean, unbiased, *rest]
    moved = [_moved(p.name(at), new, factor) for at, new in ((3, mean), (4, unbiased))]
    return [out, *moved, *rest]


def _scaled(
    p: Piece,
    layout: Images,
    centred: Expr,
    variance: Expr,
    eps: Expr,
    scale: Expr,
    offset: Expr,
) -> Expr:
    inverse = (variance + eps).sqrt().reciprocal()
    factor = _wide(p, layout, inverse * scale)
    return centred * factor + _wide(p, layout, offset)


def _moved(old: Expr, new: Expr, factor: float) -> Expr:
    return old * (1 - factor) + new * factor


@ROWS.row("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", source=NN)
def fused_batch_norm_grad(p: Piece) -> Outputs:
    """The gradients of the images, the scale and the offset."""
    layout, gradient, image, scale, mean, variance = _layout(p), *(p.name(at) for at in range(5))
    eps = p.const(np.array(p.attr("epsilon", 1e-4), p.dtype(2)))
    inverse = (variance + eps).sqrt().reciprocal()
    centred = image - _wide(p, layout, mean)
    product = gradient * centred
    offset_gradient = _sum(p, layout, gradient)
    scale_gradient = _sum(p, layout, product) * inverse
    factor = _wide(p, layout, inverse * scale)
    if not p.attr("is_training", True):
        return [gradient * factor, scale_gradient, offset_gradient]
    pull = _mean(p, layout, product) * (inverse * inverse)
    bent = centred * _wide(p, layout, pull)
    level = gradient - _wide(p, layout, _mean(p, layout, gradient))
    return [(level - bent) * factor, scale_gradient, offset_gradient]
