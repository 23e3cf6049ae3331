"""Calls that slide a window over images: convolutions, pools, resizing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from divergraph.execute.translate.piece import Expr, Outputs
from divergraph.execute.translate.torch.call import TorchCall, row

BEGIN = 2
"""The first axis behind batch and channels."""


def along_axes(call: TorchCall, values: Sequence[int]) -> tuple[int, ...]:
    """One number for each axis windows go along; one alone is for all of them."""
    axes = len(call.shape()) - BEGIN
    return tuple(values) if len(values) == axes else tuple(values) * axes


def need_batch(call: TorchCall, axes: int) -> None:
    """Refuse a *call* whose first tensor has no batch and channels before so many *axes*."""
    if len(call.shape()) != axes + BEGIN:
        raise call.refused("has no axis of a batch")


@row("conv1d", "conv2d", "conv3d", source="torch.nn.functional.conv2d")
def _conv(call: TorchCall) -> Outputs:
    need_batch(call, int(call.type[4]))
    return [_convolved(call, call.integer(6, "groups", 1), call.integers(5, "dilation", (1,)))]


def _convolved(call: TorchCall, groups: int, dilation: Sequence[int]) -> Expr:
    word, dilations = call.argument(4, "padding"), along_axes(call, dilation)
    if word == "same":  # the odd one goes behind
        kernel = call.shape(1, "weight")[BEGIN:]
        reach = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
        pads = (*(size // 2 for size in reach), *(size - size // 2 for size in reach))
    else:
        pads = along_axes(call, (0,) if word == "valid" else call.integers(4, "padding", (0,))) * 2
    return call.piece.add(
        "Conv",
        call.tensor(),
        call.tensor(1, "weight"),
        call.find(2, "bias"),
        strides=along_axes(call, call.integers(3, "stride", (1,))),
        pads=pads,
        dilations=dilations,
        group=groups,
    )


@row("convolution", source="aten::convolution")
def _any_convolution(call: TorchCall) -> Outputs:
    dilation, groups = call.integers(5, "dilation", (1,)), call.integer(8, "groups", 1)
    if not call.flag(6, "transposed"):
        return [_convolved(call, groups, dilation)]
    return [_transposed(call, call.integers(7, "output_padding", (0,)), groups, dilation)]


@row("conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
     source="torch.nn.functional.conv_transpose2d")  # fmt: skip
def _conv_transpose(call: TorchCall) -> Outputs:
    need_batch(call, int(call.type[len("conv_transpose")]))
    padding, groups = call.integers(5, "output_padding", (0,)), call.integer(6, "groups", 1)
    return [_transposed(call, padding, groups, call.integers(7, "dilation", (1,)))]


def _transposed(
    call: TorchCall, padding: Sequence[int], groups: int, dilation: Sequence[int]
) -> Expr:
    return call.piece.add(
        "ConvTranspose",
        call.tensor(),
        call.tensor(1, "weight"),
        call.find(2, "bias"),
        strides=along_axes(call, call.integers(3, "stride", (1,))),
        pads=along_axes(call, call.integers(4, "padding", (0,))) * 2,
        output_padding=along_axes(call, padding),
        group=groups,
        dilations=along_axes(call, dilation),
    )


def _window(call: TorchCall) -> dict[str, Any]:
    """The attributes of the window of a pooling; its step is its size where none is given."""
    size = call.integers(1, "kernel_size")
    return {
        "kernel_shape": along_axes(call, size),
        "strides": along_axes(call, call.integers(2, "stride", size) or size),
        "pads": along_axes(call, call.integers(3, "padding", (0,))) * 2,
    }


@row("max_pool1d", "max_pool2d", "max_pool3d", source="torch.nn.functional.max_pool2d")
def _max_pool(call: TorchCall) -> Outputs:
    need_batch(call, int(call.type[-2]))
    dilations = along_axes(call, call.integers(4, "dilation", (1,)))
    ceil_mode = int(call.flag(5, "ceil_mode"))
    return _largest(call, **_window(call), dilations=dilations, ceil_mode=ceil_mode)


def _largest(call: TorchCall, **window: Any) -> Outputs:
    """The largest of each window; its places are asked for as the way back needs them."""
    return call.piece.add_many("MaxPool", 2, call.tensor(), **window)[:1]


@row("avg_pool1d", "avg_pool2d", "avg_pool3d", source="torch.nn.functional.avg_pool2d")
def _average_pool(call: TorchCall) -> Outputs:
    need_batch(call, int(call.type[-2]))
    if call.argument(6, "divisor_override") is not None:
        raise call.refused("divides by another number")
    return [
        call.piece.add(
            "AveragePool",
            call.tensor(),
            **_window(call),
            ceil_mode=int(call.flag(4, "ceil_mode")),
            count_include_pad=int(call.flag(5, "count_include_pad", True)),
        )
    ]


@row(*(f"adaptive_{kind}_pool{axes}d" for kind in ("avg", "max") for axes in (1, 2)),
     *(f"Adaptive{kind}Pool{axes}d" for kind in ("Avg", "Max") for axes in (1, 2)),
     source="torch.nn.functional.adaptive_avg_pool2d")  # fmt: skip
def _adaptive_pool(call: TorchCall) -> Outputs:
    axes = tuple(range(BEGIN, len(call.shape())))
    wanted = call.recorded_sizes()[BEGIN:]
    images = call.shape()[BEGIN:]
    if any(size % max(out, 1) for size, out in zip(images, wanted, strict=True)):
        raise call.refused("has windows of several sizes")
    kernel = [size // max(out, 1) for size, out in zip(images, wanted, strict=True)]
    if "max" in call.type.lower():
        return _largest(call, kernel_shape=kernel, strides=kernel)
    if all(out == 1 for out in wanted):
        return [call.reduced("ReduceMean", call.tensor(), axes, keep=True)]
    return [call.add("AveragePool", call.tensor(), kernel_shape=kernel, strides=kernel)]


_RESIZED = {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "bilinear",
    "upsample_bicubic2d": "bicubic",
}
"""The mode of interpolate by the name of its operator in ATen."""


@row("interpolate", "upsample", "Upsample", *_RESIZED, source="torch.nn.functional.interpolate")
def _interpolate(call: TorchCall) -> Outputs:
    mode = _RESIZED.get(call.type) or call.word(3, "mode", "nearest")
    kinds = {"nearest": "nearest", "bilinear": "linear", "linear": "linear", "bicubic": "cubic"}
    if mode not in kinds or call.flag(6, "antialias"):
        raise call.refused(f"resizes by {mode}")
    is_cornered = call.flag(4, "align_corners")
    transform = "align_corners" if is_cornered else "pytorch_half_pixel"
    return [
        call.piece.add(
            "Resize",
            call.tensor(),
            None,
            None,
            np.array(call.recorded_sizes(), np.int64),
            mode=kinds[mode],
            coordinate_transformation_mode="asymmetric" if mode == "nearest" else transform,
            nearest_mode="floor",
            cubic_coeff_a=-0.75,
        )
    ]


@row("pixel_shuffle", "PixelShuffle", source="torch.nn.functional.pixel_shuffle")
def _pixel_shuffle(call: TorchCall) -> Outputs:
    factor = call.recorded_sizes()[-1] // max(call.shape()[-1], 1)
    return [call.add("DepthToSpace", call.tensor(), blocksize=factor, mode="CRD")]


@row("unfold", source="torch.nn.functional.unfold")
def _unfold(call: TorchCall) -> Outputs:
    outputs, rank = call.piece.op.outputs, len(call.shape())
    if outputs and outputs[0].shape is not None and len(outputs[0].shape) > rank:
        return [_framed(call)]
    need_batch(call, 2)
    (height, width), dilation, pads, steps = (
        along_axes(call, call.integers(at, name, usual))
        for at, name, usual in (
            (1, "kernel_size", None),
            (2, "dilation", (1,)),
            (3, "padding", (0,)),
            (4, "stride", (1,)),
        )
    )
    ints, (batch, channels, *sizes) = call.piece.ints, call.shape()
    padded = call.add("Pad", call.tensor(), ints(0, 0, *pads, 0, 0, *pads))
    ends = [size + 2 * pad for size, pad in zip(sizes, pads, strict=True)]
    reach = [step * (size - 1) for size, step in zip((height, width), dilation, strict=True)]
    made = []
    for row_at in range(height):
        for column in range(width):
            begin = row_at * dilation[0], column * dilation[1]
            end = [at + size - far for at, size, far in zip(begin, ends, reach, strict=True)]
            part = call.add("Slice", padded, ints(*begin), ints(*end), ints(2, 3), ints(*steps))
            made.append(call.piece.reshape(part, (batch, channels, 1, -1)))
    joined = call.add("Concat", *made, axis=2)
    return [call.piece.reshape(joined, (batch, channels * height * width, -1))]


def _framed(call: TorchCall) -> Expr:
    """``Tensor.unfold``: overlapping stretches of one axis, which become the last axis."""
    axis = call.axis(1, "dimension")
    size, step = call.integer(2, "size"), call.integer(3, "step")
    places = np.arange(0, call.shape()[axis] - size + 1, step)[:, None] + np.arange(size)
    frames, rank = call.add("Gather", call.tensor(), places, axis=axis), len(call.shape())
    order = (*(at for at in range(rank + 1) if at != axis + 1), axis + 1)
    return call.piece.transpose(frames, *order)


@row("grid_sample", source="torch.nn.functional.grid_sample")
def _grid_sample(call: TorchCall) -> Outputs:
    mode = call.word(2, "mode", "bilinear")
    kinds = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if mode not in kinds:
        raise call.refused(f"samples by {mode}")
    return [
        call.piece.add(
            "GridSample",
            call.tensor(),
            call.tensor(1, "grid"),
            mode=kinds[mode],
            padding_mode=call.word(3, "padding_mode", "zeros"),
            align_corners=int(call.flag(4, "align_corners")),
        )
    ]


# Modules that slide a window, by themselves (level L0): a dump has what they read and made, but
# not their settings. Those that shapes do not tell are the usual ones; golden's own output shows
# whether they are the right ones.


class _Sizes(NamedTuple):
    """Along one axis: of the input, the output and the kernel."""

    given: int
    made: int
    kernel: int


def _axes(call: TorchCall, weight: Sequence[int]) -> Iterator[_Sizes]:
    need_batch(call, int(call.type[-2]))
    made = call.recorded_sizes()
    if len(made) != len(call.shape()):
        raise call.refused("makes another number of axes")
    along = zip(call.shape()[BEGIN:], made[BEGIN:], weight[BEGIN:], strict=True)
    yield from (_Sizes(*sizes) for sizes in along)


@row("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
     source="torch.nn.Conv2d, torch.nn.ConvTranspose2d")  # fmt: skip
def _convolution(call: TorchCall) -> Outputs:
    weight, is_transposed = call.shape("parameters.weight", ""), "Transpose" in call.type
    strides, pads, output_pads = [], [], []
    for given, made, kernel in _axes(call, weight):
        large, small = (made, given) if is_transposed else (given, made)
        strides.append(max(1, round(large / max(small, 1))))
        beyond = (small - 1) * strides[-1] + kernel - large
        pads.append(max(0, -(-beyond // 2)))
        output_pads.append(max(0, 2 * pads[-1] - beyond))
    # A weight has the channels of one group where a convolution reads, or a transposed one makes.
    channels = call.recorded_sizes() if is_transposed else call.shape()
    more: dict[str, Any] = {"output_padding": output_pads} if is_transposed else {}
    return [
        call.piece.add(
            "ConvTranspose" if is_transposed else "Conv",
            call.tensor(),
            call.tensor("parameters.weight", ""),
            call.parameter("bias"),
            strides=strides,
            pads=pads * 2,
            group=max(1, channels[1] // weight[1]),
            **more,
        )
    ]


@row("MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
     source="torch.nn.MaxPool2d")  # fmt: skip
def _pool(call: TorchCall) -> Outputs:
    # Windows side by side, as most are.
    steps = [max(1, given // max(made, 1)) for given, made, _ in _axes(call, call.shape())]
    kind = "MaxPool" if call.type.startswith("Max") else "AveragePool"
    outputs = 2 if kind == "MaxPool" else 1  # its way back needs the places of the largest
    return call.piece.add_many(kind, outputs, call.tensor(), kernel_shape=steps, strides=steps)[:1]
