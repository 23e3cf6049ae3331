"""Layers that compute each element by itself, or elements of several blobs at one place."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from divergraph.execute.translate.caffe.layer import CaffeLayer, row

_SSD = "weiliu89/caffe (branch ssd), src/caffe/layers/{}_layer.cpp"


def _alone(*types: str, source: str, kind: str) -> None:
    row(*types, source=source)(lambda layer: [layer.add(kind, bottom) for bottom in layer.bottoms])


_alone("AbsVal", source="absval", kind="Abs")
_alone("Sigmoid", source="sigmoid", kind="Sigmoid")
_alone("TanH", source="tanh", kind="Tanh")
_alone("BNLL", source="bnll", kind="Softplus")


@row("ReLU", source="relu")
def _relu(layer: CaffeLayer) -> list[str]:
    slope = layer.real("relu_param.negative_slope", 0.0)
    if slope:
        return [layer.add("LeakyRelu", layer.bottom(), alpha=slope)]
    return [layer.add("Relu", layer.bottom())]


@row("ReLU6", source="chuanqi305/MobileNet-SSD and forks, relu6_layer.cpp")
def _relu6(layer: CaffeLayer) -> list[str]:
    return [layer.add("Clip", layer.bottom(), layer.number(0), layer.number(6))]


@row("Clip", source="clip")
def _clip(layer: CaffeLayer) -> list[str]:
    low, high = layer.real("clip_param.min", -math.inf), layer.real("clip_param.max", math.inf)
    return [layer.add("Clip", layer.bottom(), layer.number(low), layer.number(high))]


@row("ELU", source="elu")
def _elu(layer: CaffeLayer) -> list[str]:
    return [layer.add("Elu", layer.bottom(), alpha=layer.real("elu_param.alpha", 1.0))]


@row("PReLU", source="prelu")
def _prelu(layer: CaffeLayer) -> list[str]:
    shape = layer.shape()
    count = 1 if layer.flag("prelu_param.channel_shared", False) else shape[1]
    slope = layer.weight(0, count, *(1 for _ in shape[2:]))
    return [layer.add("PRelu", layer.bottom(), slope)]


@row("Swish", source="swish")
def _swish(layer: CaffeLayer) -> list[str]:
    gate = layer.add("Sigmoid", _scaled(layer, layer.bottom(), layer.real("swish_param.beta", 1.0)))
    return [layer.add("Mul", layer.bottom(), gate)]


@row("Power", source="power")
def _power(layer: CaffeLayer) -> list[str]:
    power = layer.real("power_param.power", 1.0)
    if not power * layer.real("power_param.scale", 1.0):
        value = layer.real("power_param.shift", 0.0) ** power if power else 1.0
        return [layer.piece.const(np.full(layer.shape(), value, layer.dtype))]
    base = _affine(layer, "power_param")
    return [base if power == 1 else layer.add("Pow", base, layer.number(power))]


@row("Exp", source="exp")
def _exp(layer: CaffeLayer) -> list[str]:
    base = layer.real("exp_param.base", -1.0)
    shift, scale = layer.real("exp_param.shift", 0.0), layer.real("exp_param.scale", 1.0)
    inner = scale if base == -1 else scale * math.log(base)
    outer = math.exp(shift) if base == -1 else base**shift
    return [_scaled(layer, layer.add("Exp", _scaled(layer, layer.bottom(), inner)), outer)]


@row("Log", source="log")
def _log(layer: CaffeLayer) -> list[str]:
    base = layer.real("log_param.base", -1.0)
    value = layer.add("Log", _affine(layer, "log_param"))
    return [value if base == -1 else _scaled(layer, value, 1 / math.log(base))]


@row("Threshold", source="threshold")
def _threshold(layer: CaffeLayer) -> list[str]:
    limit = layer.number(layer.real("threshold_param.threshold", 0.0))
    return [layer.piece.cast(layer.add("Greater", layer.bottom(), limit), layer.dtype)]


@row("Eltwise", source="eltwise")
def _eltwise(layer: CaffeLayer) -> list[str]:
    kind = layer.choice("eltwise_param.operation", ("PROD", "SUM", "MAX"), "SUM")
    if len({layer.shape(at) for at in range(len(layer.bottoms))}) != 1:
        raise layer.refused("has bottoms of different shapes")
    parts = list(layer.bottoms)
    coeffs = layer.reals("eltwise_param.coeff")
    if coeffs and (kind != "SUM" or len(coeffs) != len(parts)):
        raise layer.refused(f"has {len(coeffs)} coefficients for {len(parts)} bottoms")
    if coeffs:
        parts = [_scaled(layer, part, by) for part, by in zip(parts, coeffs, strict=True)]
    node = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}[kind]
    return [reduce(lambda one, other: layer.add(node, one, other), parts)]


@row("Axpy", source="hujie-frank/SENet, include/caffe/layers/axpy_layer.cpp")
def _axpy(layer: CaffeLayer) -> list[str]:
    scale = layer.reshape(layer.bottom(), (*layer.shape(1)[:2], 1, 1))
    return [layer.add("Add", layer.add("Mul", scale, layer.bottom(1)), layer.bottom(2))]


@row("Dropout", source="dropout; scale_train as in weiliu89/caffe (branch ssd)")
def _dropout(layer: CaffeLayer) -> list[str]:
    if layer.is_training:
        raise layer.refused("draws numbers in the phase TRAIN")
    if layer.flag("dropout_param.scale_train", True):
        return [layer.bottom()]
    return [_scaled(layer, layer.bottom(), 1 - layer.real("dropout_param.dropout_ratio", 0.5))]


@row("Scale", source="scale")
def _scale(layer: CaffeLayer) -> list[str]:
    by, shape, used = _operand(layer, "scale_param")
    value = layer.add("Mul", layer.bottom(), by)
    if not layer.flag("scale_param.bias_term", False):
        return [value]
    return [layer.add("Add", value, layer.weight(used, *shape))]


@row("Bias", source="bias")
def _bias(layer: CaffeLayer) -> list[str]:
    return [layer.add("Add", layer.bottom(), _operand(layer, "bias_param")[0])]


def _operand(layer: CaffeLayer, block: str) -> tuple[str, tuple[int, ...], int]:
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


def _affine(layer: CaffeLayer, block: str) -> str:
    """The bottom times ``scale`` plus ``shift``."""
    shift = layer.real(f"{block}.shift", 0.0)
    value = _scaled(layer, layer.bottom(), layer.real(f"{block}.scale", 1.0))
    return layer.add("Add", value, layer.number(shift)) if shift else value


def _scaled(layer: CaffeLayer, tensor: str, by: float) -> str:
    return tensor if by == 1 else layer.add("Mul", tensor, layer.number(by))
