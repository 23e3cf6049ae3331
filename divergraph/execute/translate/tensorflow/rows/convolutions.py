"""Convolutions and their gradients. TensorFlow's filters are height, width, in, out; ONNX's are
out, in, height, width."""

from __future__ import annotations

from collections.abc import Sequence

from divergraph.execute.translate.piece import Piece
from divergraph.execute.translate.tensorflow.rows.layouts import Images, images, windows
from divergraph.execute.translate.tensorflow.rows.table import NN, ROWS
from divergraph.execute.translate.windows import SlidingWindows, put_back, seen_by_filters


@ROWS.row("Conv2D", source=NN)
def conv2d(p: Piece) -> Sequence[str]:
    """A convolution; filters with fewer inputs than the image has channels make groups."""
    return [_convolution(p, 2)]


@ROWS.row("Conv3D", source=NN)
def conv3d(p: Piece) -> Sequence[str]:
    """A convolution of volumes."""
    return [_convolution(p, 3)]


def _convolution(p: Piece, spatial: int) -> str:
    layout = images(p, spatial)
    over = windows(p, layout, layout.sizes(p.shape(0)), p.shape(1)[:spatial])
    filters = p.transpose(p.name(1), spatial + 1, spatial, *range(spatial))
    groups = p.shape(0)[layout.axis] // p.shape(1)[spatial]
    return layout.from_first(p, _conv(p, layout.to_first(p, p.name(0)), filters, over, groups))


def _conv(p: Piece, image: str, filters: str, over: SlidingWindows, groups: int) -> str:
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
def depthwise(p: Piece) -> Sequence[str]:
    """A convolution of each channel by itself, with some filters each."""
    layout = images(p)
    high, wide, channels, _many = p.shape(1)
    over = windows(p, layout, layout.sizes(p.shape(0)), (high, wide))
    image = layout.to_first(p, p.name(0))
    return [
        layout.from_first(p, _conv(p, image, _by_channel(p, p.name(1), p.shape(1)), over, channels))
    ]


def _by_channel(p: Piece, filters: str, shape: Sequence[int]) -> str:
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
def convolution_input_gradient(p: Piece) -> Sequence[str]:
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
def convolution_filter_gradient(p: Piece) -> Sequence[str]:
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
) -> str:
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
def depthwise_input_gradient(p: Piece) -> Sequence[str]:
    """The gradient of a depthwise convolution's image."""
    layout = images(p)
    sizes = layout.sizes(p.integers(0))
    over = windows(p, layout, sizes, p.shape(1)[:2])
    filters = _by_channel(p, p.name(1), p.shape(1))
    gradient = layout.to_first(p, p.name(2))
    return [layout.from_first(p, put_back(p, gradient, filters, over, sizes, p.shape(1)[2]))]


@ROWS.row("DepthwiseConv2dNativeBackpropFilter", source=NN)
def depthwise_filter_gradient(p: Piece) -> Sequence[str]:
    """The gradient of a depthwise convolution's filters."""
    layout = images(p)
    high, wide, channels, many = p.integers(1)
    over = windows(p, layout, layout.sizes(p.shape(0)), (high, wide))
    correlated = _correlated(p, layout, over, channels, depthwise=True)
    split = p.reshape(correlated, (channels, many, high, wide))
    return [p.transpose(split, 2, 3, 0, 1)]
