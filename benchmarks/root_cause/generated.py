"""Models no rule was made on, written here: random weights of sizes that keep values alive.

Each is the form of a known kind of network, small enough for hundreds of faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
Made = tuple[onnx.ModelProto, dict[str, Array]]
_OPSET, _IR = 17, 8


@dataclass
class Sheet:
    """A graph being written: each call adds a node and gives the name of what it makes."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.several(kind, *inputs, count=1, **attributes)[0]

    def several(self, kind: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """The outputs of a node that has *count* of them."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        made = [name if place == 0 else f"{name}_{place}" for place in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=name, **attributes))
        return made

    def constant(self, values: object, kind: type = np.float32) -> str:
        """A tensor of the model with these values."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def integers(self, *values: int) -> str:
        """A vector of int64."""
        return self.constant(values, np.int64)

    def weight(self, *shape: int, gain: float = 1.4) -> str:
        """Random weights [out, in, ...] or [in, out] that keep the size of what they multiply."""
        sums = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        return self.constant(self.rng.normal(0, gain / np.sqrt(sums), shape))

    def vector(self, size: int, middle: float = 0.0, spread: float = 0.2) -> str:
        """Random values around *middle*."""
        return self.constant(self.rng.normal(middle, spread, size))

    def conv(self, x: str, old: int, new: int, size: int = 3, **attributes: Any) -> str:
        """A convolution with a bias, padded to keep the size at stride 1."""
        group = attributes.get("group", 1)
        pads = [size // 2] * 4
        weights = self.weight(new, old // group, size, size)
        return self("Conv", x, weights, self.vector(new), pads=pads, **attributes)

    def norm(self, x: str, channels: int) -> str:
        """A batch normalisation with statistics of its own."""
        variance = self.constant(self.rng.uniform(0.4, 2, channels))
        scale, shift = self.vector(channels, 1.0), self.vector(channels)
        return self("BatchNormalization", x, scale, shift, self.vector(channels), variance)

    def model(self, feeds: Mapping[str, Array], outputs: Sequence[str]) -> Made:
        """What is written, with the values to feed."""
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in feeds.items()
        ]
        results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "generated", inputs, results, self.weights)
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=_IR), dict(feeds)


def transformer(seed: int) -> Made:
    """Two layers of attention over 20 words of two texts, one of them shorter; layer norms."""
    sheet, wide, heads, words = Sheet(np.random.default_rng(seed)), 48, 4, 20
    rng = sheet.rng
    ids = rng.integers(0, 120, (2, words))
    mask = np.where(np.arange(words)[None] < np.array([[words], [14]]), 0.0, -1e4)
    x = sheet("Gather", sheet.constant(rng.normal(0, 1, (120, wide))), "ids")
    x = sheet("Add", x, sheet.constant(rng.normal(0, 0.3, (1, words, wide))))
    for _ in range(2):
        y = layer_norm(sheet, x, wide)
        q, k, v = (heads_of(sheet, linear(sheet, y, wide, wide), heads, wide) for _ in range(3))
        score = sheet("MatMul", q, sheet("Transpose", k, perm=[0, 1, 3, 2]))
        score = sheet("Div", score, sheet.constant(np.sqrt(wide / heads)))
        score = sheet("Softmax", sheet("Add", score, "mask"), axis=-1)
        seen = sheet("Transpose", sheet("MatMul", score, v), perm=[0, 2, 1, 3])
        seen = sheet("Reshape", seen, sheet.integers(0, 0, wide))
        x = sheet("Add", x, linear(sheet, seen, wide, wide))
        y = linear(sheet, layer_norm(sheet, x, wide), wide, 3 * wide)
        x = sheet("Add", x, linear(sheet, gelu(sheet, y), 3 * wide, wide))
    x = linear(sheet, layer_norm(sheet, x, wide), wide, 30)
    feeds: dict[str, Array] = {"ids": ids, "mask": mask[:, None, None].astype(np.float32)}
    return sheet.model(feeds, [x])


def mobilenet(seed: int) -> Made:
    """Inverted residuals with squeeze-and-excitation, HardSwish and Relu6."""
    sheet = Sheet(np.random.default_rng(seed))
    x = sheet("HardSwish", sheet.norm(sheet.conv("x", 3, 16, strides=[2, 2]), 16))
    for old, new, stride in ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 40, 2)):
        wide = 3 * old
        y = _relu6(sheet, sheet.norm(sheet.conv(x, old, wide, 1), wide))
        y = sheet.conv(y, wide, wide, 3, group=wide, strides=[stride, stride])
        y = sheet("HardSwish", sheet.norm(y, wide))
        gate = sheet("Relu", sheet.conv(sheet("GlobalAveragePool", y), wide, old, 1))
        y = sheet("Mul", y, sheet("HardSigmoid", sheet.conv(gate, old, wide, 1), alpha=1 / 6))
        y = sheet.norm(sheet.conv(y, wide, new, 1), new)
        x = sheet("Add", x, y) if old == new and stride == 1 else y
    x = sheet("Flatten", sheet("GlobalAveragePool", sheet("HardSwish", sheet.conv(x, 40, 96, 1))))
    x = sheet("Gemm", x, sheet.weight(96, 20), sheet.vector(20))
    feeds = {"x": _smooth(sheet.rng, (2, 3, 48, 48))}
    return sheet.model(feeds, [sheet("Softmax", x, axis=-1)])


def unet(seed: int) -> Made:
    """Down by pools, up by transposed convolutions and a resize, with skips by Concat."""
    sheet = Sheet(np.random.default_rng(seed))
    sizes, x, skips, old = (8, 16, 24), "x", [], 1
    for new in sizes:
        x = sheet("Relu", sheet.norm(sheet.conv(x, old, new), new))
        x = sheet("LeakyRelu", sheet.conv(x, new, new), alpha=0.1)
        skips.append(x)
        x = sheet("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        old = new
    x = sheet("Elu", sheet.conv(x, old, 32, dilations=[1, 1]), alpha=1.0)
    old = 32
    for new, skip in zip(reversed(sizes), reversed(skips), strict=True):
        if new == 16:
            scales = sheet.constant([1, 1, 2, 2])
            x = sheet.conv(sheet("Resize", x, "", scales, mode="nearest"), old, new)
        else:
            weights = sheet.weight(old, new, 2, 2, gain=3)
            x = sheet("ConvTranspose", x, weights, sheet.vector(new), strides=[2, 2])
        x = sheet("Concat", x, skip, axis=1)
        scale, shift = sheet.vector(2 * new, 1.0), sheet.vector(2 * new)
        x = sheet("InstanceNormalization", x, scale, shift, epsilon=1e-5)
        x = sheet("Relu", sheet.conv(x, 2 * new, new))
        old = new
    feeds = {"x": _smooth(sheet.rng, (1, 1, 48, 64))}
    return sheet.model(feeds, [sheet("Sigmoid", sheet.conv(x, old, 2, 1))])


def gru(seed: int) -> Made:
    """Two layers of GRUs, the first in both directions, over features of a convolution."""
    sheet, long, wide = Sheet(np.random.default_rng(seed)), 24, 32
    weights = sheet.weight(wide, 10, 3)
    x = sheet("Conv", "x", weights, sheet.vector(wide), pads=[1, 1])
    x = sheet("Transpose", sheet("Tanh", x), perm=[2, 0, 1])
    for ways, size, old in ((2, 24, wide), (1, 24, 48)):
        x = sheet(
            "GRU",
            x,
            sheet.constant(sheet.rng.normal(0, 1.2 / np.sqrt(old), (ways, 3 * size, old))),
            sheet.constant(sheet.rng.normal(0, 1 / np.sqrt(size), (ways, 3 * size, size))),
            sheet.constant(sheet.rng.normal(0, 0.2, (ways, 6 * size))),
            hidden_size=size,
            direction="bidirectional" if ways == 2 else "forward",
            linear_before_reset=1,
        )
        x = sheet("Reshape", sheet("Transpose", x, perm=[0, 2, 1, 3]), sheet.integers(0, 0, -1))
    x = linear(sheet, x, 24, 40)
    x = sheet("Mul", x, sheet("Sigmoid", linear(sheet, x, 40, 40)))
    scores = sheet("Softmax", linear(sheet, sheet("Tanh", x), 40, 1), axis=0)
    x = sheet("ReduceSum", sheet("Mul", x, scores), sheet.integers(0), keepdims=0)
    x = sheet("Gemm", x, sheet.weight(40, 12), sheet.vector(12))
    feeds = {"x": np.cumsum(sheet.rng.normal(0, 0.5, (3, 10, long)), 2).astype(np.float32)}
    return sheet.model(feeds, [sheet("LogSoftmax", x, axis=-1)])


GENERATED: Mapping[str, Callable[[int], Made]] = {
    "transformer": transformer,
    "mobilenet": mobilenet,
    "unet": unet,
    "gru": gru,
}
"""Makers of models by kind: the model and its feeds, of a seed."""


def linear(sheet: Sheet, x: str, old: int, new: int) -> str:
    """A product with weights and a bias."""
    return sheet("Add", sheet("MatMul", x, sheet.weight(old, new)), sheet.vector(new))


def layer_norm(sheet: Sheet, x: str, wide: int) -> str:
    """As exporters spell it out."""
    centred = sheet("Sub", x, sheet("ReduceMean", x, axes=[-1]))
    squares = sheet("ReduceMean", sheet("Pow", centred, sheet.constant(2.0)), axes=[-1])
    spread = sheet("Sqrt", sheet("Add", squares, sheet.constant(1e-5)))
    scaled = sheet("Mul", sheet("Div", centred, spread), sheet.vector(wide, 1.0))
    return sheet("Add", scaled, sheet.vector(wide))


def heads_of(sheet: Sheet, x: str, heads: int, wide: int) -> str:
    """Cut into heads: [batch, heads, words, size]."""
    x = sheet("Reshape", x, sheet.integers(0, 0, heads, wide // heads))
    return sheet("Transpose", x, perm=[0, 2, 1, 3])


def gelu(sheet: Sheet, x: str) -> str:
    """x times its normal distribution, as exporters spell it out."""
    error = sheet("Erf", sheet("Div", x, sheet.constant(np.sqrt(2))))
    half = sheet("Mul", x, sheet.constant(0.5))
    return sheet("Mul", half, sheet("Add", error, sheet.constant(1.0)))


def _relu6(sheet: Sheet, x: str) -> str:
    return sheet("Clip", x, sheet.constant(0.0), sheet.constant(6.0))


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A picture of blobs in some noise."""
    spots = rng.normal(0, 1, (*shape[:2], -(-shape[2] // 8), -(-shape[3] // 8)))
    large = np.repeat(np.repeat(spots, 8, axis=2), 8, axis=3)[..., : shape[2], : shape[3]]
    return np.asarray(large + 0.3 * rng.normal(size=shape), np.float32)
