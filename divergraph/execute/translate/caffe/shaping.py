"""Layers that move, join, cut or choose elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row
from divergraph.execute.translate.piece import Expr


@row("Split", source="split")
def _split(layer: CaffeLayer) -> list[Expr]:
    return [layer.bottom()] * layer.tops


@row("Silence", source="silence")
def _silence(layer: CaffeLayer) -> list[Expr]:
    return [layer.bottom()] * layer.tops


@row("Parameter", source="BVLC/caffe, include/caffe/layers/parameter_layer.hpp")
def _parameter(layer: CaffeLayer) -> list[Expr]:
    shape = layer.integers("parameter_param.shape.dim")
    return [layer.piece.reshape(layer.weight(0, *shape), shape)]


@row("DummyData", source="dummy_data")
def _dummy(layer: CaffeLayer) -> list[Expr]:
    """Tops filled with one number each; what was drawn is fed."""
    shapes = [tensor.shape for tensor in layer.piece.op.outputs]
    values = layer.reals("dummy_data_param.data_filler.value") or (0.0,)
    if len(values) not in (1, layer.tops):
        raise layer.refused(f"has {len(values)} fillers with a value for {layer.tops} tops")
    every = values if len(values) == layer.tops else values * layer.tops
    return [
        layer.array(np.full([size or 0 for size in shape or ()], value))
        for shape, value in zip(shapes, every, strict=True)
    ]


@row("Concat", source="concat")
def _concat(layer: CaffeLayer) -> list[Expr]:
    if len(layer.bottoms) == 1:
        return [layer.bottom()]
    old = layer.integer("concat_param.concat_dim", 1)
    return [layer.add("Concat", *layer.bottoms, axis=layer.axis("concat_param.axis", old))]


@row("Slice", source="slice")
def _slice(layer: CaffeLayer) -> list[Expr]:
    axis = layer.axis("slice_param.axis", layer.integer("slice_param.slice_dim", 1))
    size = layer.shape()[axis]
    if layer.tops == 1:
        return [layer.bottom()]
    points = layer.integers("slice_param.slice_point")
    if points:
        parts = [stop - start for start, stop in pairwise((0, *points, size))]
    else:
        parts = [size // layer.tops] * layer.tops
    if len(parts) != layer.tops or sum(parts) != size or min(parts) <= 0:
        raise layer.refused(f"cannot cut {size} into {layer.tops} parts at {points}")
    sizes = np.array(parts, np.int64)
    return list(layer.piece.add_many("Split", layer.tops, layer.bottom(), sizes, axis=axis))


@row("Flatten", source="flatten")
def _flatten(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    start, end = layer.axis("flatten_param.axis", 1), layer.axis("flatten_param.end_axis", -1)
    return [
        layer.reshape(
            layer.bottom(), (*shape[:start], count(shape[start : end + 1]), *shape[end + 1 :])
        )
    ]


@row("Reshape", source="reshape")
def _reshape(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    start = layer.integer("reshape_param.axis", 0)
    start += len(shape) + 1 if start < 0 else 0
    axes = layer.integer("reshape_param.num_axes", -1)
    end = len(shape) if axes == -1 else start + axes
    dims = layer.integers("reshape_param.shape.dim")
    if not 0 <= start <= end <= len(shape):
        raise layer.refused(f"cannot reshape axes {start} to {end} of {len(shape)}")
    inside = shape[start:end]
    if any(size == 0 and at >= len(inside) for at, size in enumerate(dims)):
        raise layer.refused("copies a size the bottom does not have")
    sizes = [inside[at] if size == 0 else size for at, size in enumerate(dims)]
    if -1 in sizes:
        rest = count([size for size in sizes if size != -1])
        sizes[sizes.index(-1)] = count(inside) // rest if rest else 0
    return [layer.reshape(layer.bottom(), (*shape[:start], *sizes, *shape[end:]))]


@row("Permute", source="weiliu89/caffe (branch ssd), src/caffe/layers/permute_layer.cpp")
def _permute(layer: CaffeLayer) -> list[Expr]:
    order = layer.integers("permute_param.order")
    rest = [axis for axis in range(len(layer.shape())) if axis not in order]
    return [layer.piece.transpose(layer.bottom(), *order, *rest)]


@row("Tile", source="tile")
def _tile(layer: CaffeLayer) -> list[Expr]:
    axis, rank = layer.axis("tile_param.axis", 1), len(layer.shape())
    repeats = [1] * rank
    repeats[axis] = layer.integer("tile_param.tiles", 1)
    return [layer.add("Tile", layer.bottom(), layer.piece.ints(*repeats))]


@row("Crop", source="crop")
def _crop(layer: CaffeLayer) -> list[Expr]:
    shape, wanted = layer.shape(), layer.shape(1)
    axis = layer.axis("crop_param.axis", 2)
    axes = range(axis, len(shape))
    offsets = layer.integers("crop_param.offset") or (0,)
    if len(offsets) == 1:
        offsets *= len(axes)
    if len(offsets) != len(axes):
        raise layer.refused(f"has {len(offsets)} offsets for {len(axes)} axes")
    ends = [offset + wanted[at] for at, offset in zip(axes, offsets, strict=True)]
    if any(end > shape[at] for at, end in zip(axes, ends, strict=True)):
        raise layer.refused(f"cannot crop {shape} to {wanted}")
    ints = layer.piece.ints
    return [layer.add("Slice", layer.bottom(), ints(*offsets), ints(*ends), ints(*axes))]


@row("BatchReindex", source="batch_reindex")
def _batch_reindex(layer: CaffeLayer) -> list[Expr]:
    index = layer.reshape(layer.piece.cast(layer.bottom(1), np.int64), (-1,))
    return [layer.add("Gather", layer.bottom(), index, axis=0)]


@row("Filter", source="filter")
def _filter(layer: CaffeLayer) -> list[Expr]:
    chosen = layer.reshape(layer.piece.cast(layer.bottoms[-1], np.bool_), (-1,))
    return [layer.add("Compress", bottom, chosen, axis=0) for bottom in layer.bottoms[:-1]]


@row("ShuffleChannel", source="farmingyard/ShuffleNet, shuffle_channel_layer.cpp")
def _shuffle_channel(layer: CaffeLayer) -> list[Expr]:
    shape, groups = layer.shape(), layer.integer("shuffle_channel_param.group", 1)
    if shape[1] % groups:
        raise layer.refused(f"cannot divide {shape[1]} channels into {groups} groups")
    grouped = layer.reshape(
        layer.bottom(), (shape[0], groups, shape[1] // groups, count(shape[2:]))
    )
    return [layer.reshape(layer.piece.transpose(grouped, 0, 2, 1, 3), shape)]


@row("Embed", source="embed")
def _embed(layer: CaffeLayer) -> list[Expr]:
    outputs = layer.integer("embed_param.num_output", 0)
    table = layer.weight(0, layer.integer("embed_param.input_dim", 0), outputs)
    value = layer.add("Gather", table, layer.piece.cast(layer.bottom(), np.int64), axis=0)
    if not layer.flag("embed_param.bias_term", True):
        return [value]
    return [value + layer.weight(1, outputs)]


@row("ArgMax", source="argmax")
def _argmax(layer: CaffeLayer) -> list[Expr]:
    shape, top = layer.shape(), layer.integer("argmax_param.top_k", 1)
    values_wanted = layer.flag("argmax_param.out_max_val", False)
    if layer.setting("argmax_param.axis") is not None:
        axis = layer.axis("argmax_param.axis", 0)
        values, places = _largest(layer, layer.bottom(), axis, top, shape[axis])
        return [values if values_wanted else places]
    flat = layer.reshape(layer.bottom(), (shape[0], 1, count(shape[1:])))
    values, places = _largest(layer, flat, 2, top, count(shape[1:]))
    joined = layer.add("Concat", places, values, axis=1) if values_wanted else places
    return [
        layer.reshape(joined, (shape[0], 2 if values_wanted else 1, top, *(1 for _ in shape[3:])))
    ]


def _largest(layer: CaffeLayer, tensor: Expr, axis: int, top: int, size: int) -> tuple[Expr, Expr]:
    """The *top* largest values along *axis* and their places as numbers.

    Caffe sorts pairs of value and place, so of equal values the last comes first. TopK takes the
    first: it is given the axis turned round.
    """
    ints = layer.piece.ints
    turned = layer.add("Slice", tensor, ints(-1), ints(-size - 1), ints(axis), ints(-1))
    values, places = layer.piece.add_many("TopK", 2, turned, ints(top), axis=axis)
    back = layer.piece.const(np.array(size - 1, np.int64)) - places
    return values, layer.piece.cast(back, layer.dtype)


@row("Reduction", source="reduction")
def _reduction(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    axis = layer.axis("reduction_param.axis", 0)
    kind = layer.choice("reduction_param.operation", ("", "SUM", "ASUM", "SUMSQ", "MEAN"), "SUM")
    node = {
        "SUM": "ReduceSum",
        "ASUM": "ReduceL1",
        "SUMSQ": "ReduceSumSquare",
        "MEAN": "ReduceMean",
    }
    axes = layer.piece.ints(*range(axis, len(shape)))
    value = layer.add(node[kind], layer.bottom(), axes, keepdims=0)
    by = layer.real("reduction_param.coeff", 1.0)
    return [value if by == 1 else (value * by)]


def count(sizes: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return int(np.prod(sizes, dtype=np.int64))


# Layers that compute each element by itself, or elements of several blobs at one place.


_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"


def _alone(*types: str, source: str, kind: str) -> None:
    row(*types, source=source)(lambda layer: [layer.add(kind, bottom) for bottom in layer.bottoms])


_alone("AbsVal", source="absval", kind="Abs")
_alone("Sigmoid", source="sigmoid", kind="Sigmoid")
_alone("TanH", source="tanh", kind="Tanh")
_alone("BNLL", source="bnll", kind="Softplus")


@row("ReLU", source="relu")
def _relu(layer: CaffeLayer) -> list[Expr]:
    slope = layer.real("relu_param.negative_slope", 0.0)
    if slope:
        return [layer.add("LeakyRelu", layer.bottom(), alpha=slope)]
    return [layer.bottom().relu()]


@row("ReLU6", source="chuanqi305/MobileNet-SSD and forks, relu6_layer.cpp")
def _relu6(layer: CaffeLayer) -> list[Expr]:
    return [layer.add("Clip", layer.bottom(), 0, 6)]


@row("Clip", source="clip")
def _clip(layer: CaffeLayer) -> list[Expr]:
    low, high = layer.real("clip_param.min", -math.inf), layer.real("clip_param.max", math.inf)
    return [layer.add("Clip", layer.bottom(), low, high)]


@row("ELU", source="elu")
def _elu(layer: CaffeLayer) -> list[Expr]:
    return [layer.add("Elu", layer.bottom(), alpha=layer.real("elu_param.alpha", 1.0))]


@row("PReLU", source="prelu")
def _prelu(layer: CaffeLayer) -> list[Expr]:
    shape = layer.shape()
    count = 1 if layer.flag("prelu_param.channel_shared", False) else shape[1]
    slope = layer.weight(0, count, *(1 for _ in shape[2:]))
    return [layer.add("PRelu", layer.bottom(), slope)]


@row("Swish", source="swish")
def _swish(layer: CaffeLayer) -> list[Expr]:
    gate = _scaled(layer.bottom(), layer.real("swish_param.beta", 1.0)).sigmoid()
    return [layer.bottom() * gate]


@row("Power", source="power")
def _power(layer: CaffeLayer) -> list[Expr]:
    power = layer.real("power_param.power", 1.0)
    if not power * layer.real("power_param.scale", 1.0):
        value = layer.real("power_param.shift", 0.0) ** power if power else 1.0
        return [layer.piece.const(np.full(layer.shape(), value, layer.dtype))]
    base = _affine(layer, "power_param")
    return [base if power == 1 else (base**power)]


@row("Exp", source="exp")
def _exp(layer: CaffeLayer) -> list[Expr]:
    base = layer.real("exp_param.base", -1.0)
    shift, scale = layer.real("exp_param.shift", 0.0), layer.real("exp_param.scale", 1.0)
    inner = scale if base == -1 else scale * math.log(base)
    outer = math.exp(shift) if base == -1 else base**shift
    return [_scaled(_scaled(layer.bottom(), inner).exp(), outer)]


@row("Log", source="log")
def _log(layer: CaffeLayer) -> list[Expr]:
    base = layer.real("log_param.base", -1.0)
    value = _affine(layer, "log_param").log()
    return [value if base == -1 else _scaled(value, 1 / math.log(base))]


@row("Threshold", source="threshold")
def _threshold(layer: CaffeLayer) -> list[Expr]:
    limit = layer.number(layer.real("threshold_param.threshold", 0.0))
    return [layer.piece.cast(layer.bottom() > limit, layer.dtype)]


@row("Eltwise", source="eltwise")
def _eltwise(layer: CaffeLayer) -> list[Expr]:
    kind = layer.choice("eltwise_param.operation", ("PROD", "SUM", "MAX"), "SUM")
    if len({layer.shape(at) for at in range(len(layer.bottoms))}) != 1:
        raise layer.refused("has bottoms of different shapes")
    parts = list(layer.bottoms)
    coeffs = layer.reals("eltwise_param.coeff")
    if coeffs and (kind != "SUM" or len(coeffs) != len(parts)):
        raise layer.refused(f"has {len(coeffs)} coefficients for {len(parts)} bottoms")
    if coeffs:
        parts = [_scaled(part, by) for part, by in zip(parts, coeffs, strict=True)]
    node = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[kind]
    return [reduce(lambda one, other: layer.add(node, one, other), parts)]


@row("Axpy", source="hujie-frank/SENet, include/caffe/layers/axpy_layer.cpp")
def _axpy(layer: CaffeLayer) -> list[Expr]:
    scale = layer.reshape(layer.bottom(), (*layer.shape(1)[:2], 1, 1))
    return [scale * layer.bottom(1) + layer.bottom(2)]


@row("Dropout", source="dropout; scale_train as in weiliu89/caffe (branch ssd)")
def _dropout(layer: CaffeLayer) -> list[Expr]:
    if layer.is_training:
        raise layer.refused("draws numbers in the phase TRAIN")
    if layer.flag("dropout_param.scale_train", True):
        return [layer.bottom()]
    return [_scaled(layer.bottom(), 1 - layer.real("dropout_param.dropout_ratio", 0.5))]


@row("Scale", source="scale")
def _scale(layer: CaffeLayer) -> list[Expr]:
    by, shape, used = _operand(layer, "scale_param")
    value = layer.bottom() * by
    if not layer.flag("scale_param.bias_term", False):
        return [value]
    return [value + layer.weight(used, *shape)]


@row("Bias", source="bias")
def _bias(layer: CaffeLayer) -> list[Expr]:
    return [layer.bottom() + _operand(layer, "bias_param")[0]]


def _operand(layer: CaffeLayer, block: str) -> tuple[Expr, tuple[int, ...], int]:
    """What the bottom is multiplied by or added to, in a shape that broadcasts to it; that shape;
    and how many weights it takes."""
    shape = layer.shape()
    axis = layer.axis(f"{block}.axis", 1)
    second = len(layer.bottoms) > 1
    if second:
        sizes = layer.shape(1)
    else:
        axes = layer.integer(f"{block}.num_axes", 1)
        sizes = shape[axis:] if axes == -1 else shape[axis : axis + axes]
    if not sizes:
        axis = len(shape)
    full_shape = (*sizes, *(1 for _ in shape[axis + len(sizes) :]))
    if not second:
        return layer.weight(0, *full_shape), full_shape, 1
    if shape[axis : axis + len(sizes)] != sizes:
        raise layer.refused(f"has bottoms of shapes {shape} and {sizes}")
    return layer.reshape(layer.bottom(1), full_shape), full_shape, 0


def _affine(layer: CaffeLayer, block: str) -> Expr:
    """The bottom times ``scale`` plus ``shift``."""
    shift = layer.real(f"{block}.shift", 0.0)
    value = _scaled(layer.bottom(), layer.real(f"{block}.scale", 1.0))
    return (value + shift) if shift else value


def _scaled(tensor: Expr, by: float) -> Expr:
    return tensor if by == 1 else (tensor * by)
