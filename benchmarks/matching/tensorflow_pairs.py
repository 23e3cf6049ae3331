"""TensorFlow graphs and what tf2onnx makes of them: golden .pb files and device ONNX files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import numpy.typing as npt
import onnx
import tensorflow as tf
import tf2onnx
from converted import Pair
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

Array = npt.NDArray[Any]
_OPSETS = (13, 18)


def tensorflow_pairs(
    folder: Path, only: str
) -> Iterator[tuple[Path, dict[str, Array], Iterator[Pair]]]:
    """Each golden graph with its feeds, and its pairs, one for each opset; *only* the one of this
    name, if it is not empty."""
    for name, (function, feeds) in _functions().items():
        if only not in ("", name):
            continue
        traced = tf.function(function).get_concrete_function(
            **{key: tf.TensorSpec(value.shape, value.dtype, key) for key, value in feeds.items()}
        )
        frozen = convert_variables_to_constants_v2(traced)
        graph = frozen.graph.as_graph_def()
        golden = folder / f"{name}.pb"
        golden.write_bytes(graph.SerializeToString())
        outputs = [each.name for each in frozen.outputs]
        given = {f"{key}:0": value for key, value in feeds.items()}
        yield golden, given, _pairs(graph, list(given), outputs, golden)


def _pairs(graph: Any, inputs: list[str], outputs: list[str], golden: Path) -> Iterator[Pair]:
    for opset in _OPSETS:
        model, _ = tf2onnx.convert.from_graph_def(
            graph, name=golden.stem, opset=opset, input_names=inputs, output_names=outputs
        )
        target = golden.with_suffix(f".{opset}.onnx")
        onnx.save_model(model, str(target))
        yield Pair(f"tf2onnx, opset {opset}", target, target)


def _functions() -> Mapping[str, tuple[Callable[..., Any], dict[str, Array]]]:
    rng = np.random.default_rng(2)
    tf.random.set_seed(2)
    keras.utils.set_random_seed(2)

    def pixels(*shape: int) -> dict[str, Array]:
        return {"x": rng.normal(0, 1, shape).astype(np.float32)}

    words = {"ids": rng.integers(0, 60, (2, 14)).astype(np.int32)}
    return {
        "lenet": (_called(_lenet()), pixels(2, 28, 28, 1)),
        "resnet": (_called(_resnet()), pixels(1, 32, 32, 3)),
        "mobilenet": (_called(_mobilenet()), pixels(1, 64, 64, 3)),
        "lstm": (_called(_lstm()), pixels(2, 9, 12)),
        "bert": (Bert(48, 4, 2), words),
        "elementwise": (_elementwise, pixels(3, 4, 8)),
    }


def _called(model: keras.Model) -> Callable[[Any], Any]:
    for weight in model.weights:  # statistics of their own, not 0 and 1
        value = np.asarray(weight)
        if value.ndim == 1:
            moved = np.random.default_rng(value.size).uniform(0.5, 1.5, value.shape)
            weight.assign(moved if "var" in weight.name or "gamma" in weight.name else moved - 1)
    return lambda x: model(x, training=False)


def _lenet() -> keras.Model:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(6, 5, padding="same", activation="relu", name="conv1"),
            layers.MaxPooling2D(2, name="pool1"),
            layers.Conv2D(16, 5, activation="tanh", name="conv2"),
            layers.AveragePooling2D(2, name="pool2"),
            layers.Flatten(name="flat"),
            layers.Dense(84, activation="relu", name="dense1"),
            layers.Dense(10, activation="softmax", name="dense2"),
        ]
    )


def _resnet() -> keras.Model:
    layers = keras.layers
    x = start = layers.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
    for wide in (16, 32):
        skip = layers.Conv2D(wide, 1, strides=2)(x)
        y = layers.ReLU()(layers.BatchNormalization()(x))
        y = layers.Conv2D(wide, 3, strides=2, padding="same", use_bias=False)(y)
        y = layers.ReLU()(layers.BatchNormalization()(y))
        x = layers.Add()([skip, layers.Conv2D(wide, 3, padding="same", use_bias=False)(y)])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(start, layers.Dense(10)(x))


def _mobilenet() -> keras.Model:
    layers = keras.layers
    x = start = layers.Input((64, 64, 3))
    x = layers.Activation("hard_swish")(layers.Conv2D(16, 3, strides=2, padding="same")(x))
    for wide, stride in ((16, 1), (24, 2), (24, 1)):
        y = layers.BatchNormalization()(layers.Conv2D(3 * wide, 1, use_bias=False)(x))
        y = layers.DepthwiseConv2D(3, strides=stride, padding="same")(layers.ReLU(6.0)(y))
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
        gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
        gate = layers.Conv2D(3 * wide, 1, activation="hard_sigmoid")(gate)
        y = layers.BatchNormalization()(layers.Conv2D(wide, 1)(layers.Multiply()([y, gate])))
        x = layers.Add()([x, y]) if stride == 1 else y
    x = layers.UpSampling2D(2, interpolation="bilinear")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(x)
    return keras.Model(start, layers.Activation("sigmoid")(x))


def _lstm() -> keras.Model:
    layers = keras.layers
    x = start = layers.Input((9, 12))
    x = layers.LSTM(16, return_sequences=True, unroll=True)(x)
    x = layers.GRU(12, unroll=True)(x)
    return keras.Model(start, layers.Dense(5, activation="softmax")(x))


def _elementwise(x: Any) -> Any:
    """Ops that ONNX lacks: converters write each as several."""
    y = tf.math.squared_difference(x, tf.reduce_mean(x, -1, keepdims=True))
    y = tf.math.rsqrt(y + 0.1) + tf.math.softplus(x) * tf.math.erf(x)
    y = tf.math.floordiv(y, 0.3) + tf.math.floormod(x, 0.7) + tf.math.log(1 + tf.abs(x))
    y = tf.nn.relu6(y) + tf.nn.swish(x) + tf.math.sinh(x) + tf.nn.elu(x)
    best, places = tf.math.top_k(y, k=4)
    y = tf.concat([best, tf.cast(places, tf.float32), tf.reverse(y, [1])], -1)
    y = tf.where(y > 0.5, y, tf.math.reduce_logsumexp(y, -1, keepdims=True))
    y = tf.nn.l2_normalize(y, -1) + tf.math.cumsum(y, 1) / tf.norm(y + 0.01)
    y = (
        tf.clip_by_value(y, -1.0, 2.0)
        + tf.nn.log_softmax(y)
        + tf.math.divide_no_nan(y, x[:, :, :1])
    )
    return tf.einsum("abc,adc->abd", y, y) / tf.cast(tf.size(y), tf.float32)


class Bert(tf.Module):
    """Layers of attention with the layer norms that tf.nn.moments and batch_normalization write."""

    def __init__(self, wide: int, heads: int, layers: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(7)
        self._wide, self._heads = wide, heads
        self._table = self._weight(60, wide)
        self._layers = [
            {key: self._weight(*shape) for key, shape in self._shapes().items()}
            for _ in range(layers)
        ]

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        wide = self._wide
        pairs = dict.fromkeys("qkvo", (wide, wide)) | {"up": (wide, 3 * wide)}
        pairs |= {"down": (3 * wide, wide)}
        return pairs | {f"{key}_b": shape[1:] for key, shape in pairs.items()}

    def _weight(self, *shape: int) -> tf.Variable:
        return tf.Variable(self._rng.normal(0, 1.2 / np.sqrt(shape[0]), shape).astype(np.float32))

    def __call__(self, ids: Any) -> Any:
        """Values of the class of each text."""
        x = tf.gather(self._table, ids)
        batch, words = ids.shape
        for weights in self._layers:
            q, k, v = (
                tf.transpose(
                    tf.reshape(
                        tf.nn.bias_add(tf.tensordot(x, weights[key], 1), weights[f"{key}_b"]),
                        [batch, words, self._heads, -1],
                    ),
                    [0, 2, 1, 3],
                )
                for key in "qkv"
            )
            scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 3.4641016)
            y = tf.reshape(tf.transpose(tf.matmul(scores, v), [0, 2, 1, 3]), [batch, words, -1])
            x = _norm(x + tf.tensordot(y, weights["o"], 1) + weights["o_b"])
            y = tf.nn.gelu(tf.tensordot(x, weights["up"], 1) + weights["up_b"], approximate=True)
            x = _norm(x + tf.tensordot(y, weights["down"], 1) + weights["down_b"])
        return tf.nn.softmax(tf.reduce_mean(x, 1))


def _norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, 0.1, 1.2, 1e-5)
