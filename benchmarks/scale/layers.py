"""Layers of known networks, op by op: what made model graphs are put together from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from graphstore.model import AttrValue, Shape

Read: TypeAlias = int | str
"""Place of an op in the same layer; ``x`` the layer's input; ``@3`` (of a gradient) op 3 of
the forward layer; else the name of a constant all layers share."""

_ATTRS: dict[str, dict[str, AttrValue]] = {
    "MatMul": {"T": "float32", "transpose_a": False, "transpose_b": False},
    "BatchMatMulV2": {"T": "float32", "adj_x": False, "adj_y": True},
    "Conv2D": {"T": "float32", "strides": (1, 1, 1, 1), "padding": "SAME", "data_format": "NHWC"},
    "FusedBatchNormV3": {"T": "float32", "epsilon": 1.001e-05, "is_training": True},
    "Mean": {"T": "float32", "keep_dims": True},
    "VariableV2": {"dtype": "float32", "container": "", "shared_name": ""},
    "Reshape": {"T": "float32", "Tshape": "int32"},
}
_PLAIN: dict[str, AttrValue] = {"T": "float32"}


@dataclass(frozen=True, slots=True)
class LayerPart:
    """One op of a layer."""

    name: str
    type: str
    reads: tuple[Read, ...]
    shape: Shape
    attrs: Mapping[str, AttrValue] = field(default_factory=lambda: _PLAIN)


@dataclass(frozen=True, slots=True)
class Template:
    """A layer and its gradient; ``gradient`` is the place of what the layer before gets."""

    forward: tuple[LayerPart, ...]
    backward: tuple[LayerPart, ...]
    gradient: int


class _Layer:
    """A layer being written down."""

    def __init__(self, shape: Shape) -> None:
        self.parts: list[LayerPart] = []
        self.shape = shape

    def op(self, name: str, kind: str, *reads: Read, shape: Shape | None = None) -> int:
        attrs = _ATTRS.get(kind, _PLAIN)
        self.parts.append(LayerPart(name, kind, reads, shape or self.shape, attrs))
        return len(self.parts) - 1

    def weight(self, name: str, shape: Shape) -> int:
        variable = self.op(name, "VariableV2", shape=shape)
        return self.op(f"{name}/read", "Identity", variable, shape=shape)

    def dense(self, name: str, source: Read, wide: int, narrow: int = 768) -> int:
        kernel = self.weight(f"{name}/kernel", (narrow, wide))
        product = self.op(f"{name}/MatMul", "MatMul", source, kernel, shape=(1024, wide))
        bias = self.weight(f"{name}/bias", (wide,))
        return self.op(f"{name}/BiasAdd", "BiasAdd", product, bias, shape=(1024, wide))

    def dropout(self, name: str, source: Read) -> int:
        drawn = self.op(f"{name}/random_uniform/RandomUniform", "RandomUniform", "heads_shape")
        kept = self.op(f"{name}/GreaterEqual", "GreaterEqual", drawn, "keep_prob")
        mask = self.op(f"{name}/Cast", "Cast", kept)
        scaled = self.op(f"{name}/mul", "Mul", source, "keep_prob")
        return self.op(f"{name}/mul_1", "Mul", scaled, mask)

    def normed(self, name: str, source: Read) -> int:
        mean = self.op(f"{name}/moments/mean", "Mean", source, shape=(1024, 1))
        off = self.op(f"{name}/moments/SquaredDifference", "SquaredDifference", source, mean)
        variance = self.op(f"{name}/moments/variance", "Mean", off, shape=(1024, 1))
        safe = self.op(f"{name}/batchnorm/add", "AddV2", variance, "epsilon", shape=(1024, 1))
        root = self.op(f"{name}/batchnorm/Rsqrt", "Rsqrt", safe, shape=(1024, 1))
        gamma = self.weight(f"{name}/gamma", (768,))
        gain = self.op(f"{name}/batchnorm/mul", "Mul", root, gamma)
        scaled = self.op(f"{name}/batchnorm/mul_1", "Mul", source, gain)
        shift = self.op(f"{name}/batchnorm/mul_2", "Mul", mean, gain)
        beta = self.weight(f"{name}/beta", (768,))
        rest = self.op(f"{name}/batchnorm/sub", "Sub", beta, shift)
        return self.op(f"{name}/batchnorm/add_1", "AddV2", scaled, rest)

    def convolved(self, name: str, source: Read, channels: int) -> int:
        kernel = self.weight(f"{name}/conv/kernel", (3, 3, channels, channels))
        product = self.op(f"{name}/conv/Conv2D", "Conv2D", source, kernel)
        gamma = self.weight(f"{name}/bn/gamma", (channels,))
        beta = self.weight(f"{name}/bn/beta", (channels,))
        return self.op(f"{name}/bn/FusedBatchNormV3", "FusedBatchNormV3", product, gamma, beta)


def _encoder_layer() -> list[LayerPart]:
    layer = _Layer((1024, 768))
    heads = []
    for name in ("query", "key", "value"):
        dense = layer.dense(f"attention/self/{name}", "x", 768)
        split = layer.op(f"attention/self/{name}/Reshape", "Reshape", dense, "heads_shape")
        shape = (8, 12, 128, 64)
        heads.append(
            layer.op(f"attention/self/{name}/transpose", "Transpose", split, "perm", shape=shape)
        )
    square = (8, 12, 128, 128)
    scores = layer.op("attention/self/MatMul", "BatchMatMulV2", heads[0], heads[1], shape=square)
    scaled = layer.op("attention/self/Mul", "Mul", scores, "scale", shape=square)
    masked = layer.op("attention/self/add", "AddV2", scaled, "attention_mask", shape=square)
    weights = layer.op("attention/self/Softmax", "Softmax", masked, shape=square)
    kept = layer.dropout("attention/self/dropout", weights)
    mixed = layer.op("attention/self/MatMul_1", "BatchMatMulV2", kept, heads[2])
    back = layer.op("attention/self/transpose_3", "Transpose", mixed, "perm")
    flat = layer.op("attention/self/Reshape_3", "Reshape", back, "heads_shape")
    dense = layer.dense("attention/output/dense", flat, 768)
    kept = layer.dropout("attention/output/dropout", dense)
    summed = layer.op("attention/output/add", "AddV2", kept, "x")
    normed = layer.normed("attention/output/LayerNorm", summed)
    wide = layer.dense("intermediate/dense", normed, 3072)
    cube = layer.op("intermediate/Pow", "Pow", wide, shape=(1024, 3072))
    part = layer.op("intermediate/mul", "Mul", cube, "scale", shape=(1024, 3072))
    inner = layer.op("intermediate/add", "AddV2", wide, part, shape=(1024, 3072))
    bent = layer.op("intermediate/Tanh", "Tanh", inner, shape=(1024, 3072))
    gelu = layer.op("intermediate/mul_3", "Mul", wide, bent, shape=(1024, 3072))
    narrow = layer.dense("output/dense", gelu, 768, 3072)
    kept = layer.dropout("output/dropout", narrow)
    summed = layer.op("output/add", "AddV2", kept, normed)
    layer.normed("output/LayerNorm", summed)
    return layer.parts


def _bottleneck() -> list[LayerPart]:
    layer = _Layer((8, 56, 56, 64))
    first = layer.convolved("1", "x", 64)
    first = layer.op("1/relu/Relu", "Relu", first)
    second = layer.convolved("2", first, 64)
    second = layer.op("2/relu/Relu", "Relu", second)
    third = layer.convolved("3", second, 256)
    shortcut = layer.convolved("0", "x", 256)
    summed = layer.op("add/AddV2", "AddV2", third, shortcut)
    layer.op("out/Relu", "Relu", summed)
    return layer.parts


def _feature_layer() -> list[LayerPart]:
    layer = _Layer((1024, 256))
    dense = layer.dense("dense", "x", 256)
    gate = layer.op("Sigmoid", "Sigmoid", dense)
    gated = layer.op("gate/Mul", "Mul", dense, gate)
    layer.op("ConcatV2", "ConcatV2", gated, dense, gate, "scale")
    return layer.parts


def _template(forward: list[LayerPart]) -> Template:
    """*forward* with a gradient for each op that is no weight, and an update for each weight."""
    consumers: dict[Read, list[int]] = {}
    for place, part in enumerate(forward):
        for read in part.reads:
            consumers.setdefault(read, []).append(place)
    backward: list[LayerPart] = []
    gradient_of: dict[int, int] = {}
    for place in reversed(range(len(forward))):
        part = forward[place]
        flows: list[Read] = [
            gradient_of[user] for user in consumers.get(place, ()) if user in gradient_of
        ]
        if part.type == "VariableV2":
            reads: tuple[Read, ...] = (f"@{place}", *flows, "learning_rate")
            name = f"{part.name}/ApplyAdam"
            backward.append(LayerPart(name, "ApplyAdam", reads, part.shape))
            continue
        if place == len(forward) - 1:
            flows = ["x"]
        if not flows:
            continue
        held: tuple[Read, ...] = (f"@{place}",) if part.type != "Identity" else ()
        gradient_of[place] = len(backward)
        name = f"{part.name}_grad/{part.type}Grad"
        backward.append(LayerPart(name, f"{part.type}Grad", (*flows, *held), part.shape))
    ends = [gradient_of[user] for user in consumers["x"] if user in gradient_of]
    backward.append(LayerPart("AddN_grad/AddN", "AddN", tuple(ends), forward[-1].shape))
    return Template(tuple(forward), tuple(backward), len(backward) - 1)


ENCODER_LAYER = _template(_encoder_layer())
BOTTLENECK = _template(_bottleneck())
FEATURE_LAYER = _template(_feature_layer())
