"""Small networks made with Keras: as ONNX by tf2onnx, and as TensorFlow Lite in three ways.

``float`` as they are, ``dynamic`` with weights in 8 bits, ``int8`` with everything in 8 bits.
Needs the extra ``divergraph[real-devices]``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf2onnx
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

KINDS = ("float", "dynamic", "int8")
_LAYERS = tf.keras.layers


def cnn() -> Any:
    given = _LAYERS.Input((32, 32, 3), name="image")
    x = _LAYERS.Conv2D(16, 3, padding="same", use_bias=False, name="stem")(given)
    x = _LAYERS.ReLU(name="stem_relu")(_LAYERS.BatchNormalization(name="stem_bn")(x))
    for number, width in enumerate((24, 32)):
        x = _LAYERS.DepthwiseConv2D(3, 2, padding="same", use_bias=False, name=f"dw{number}")(x)
        x = _LAYERS.ReLU(6)(_LAYERS.BatchNormalization(name=f"dw{number}_bn")(x))
        before = x = _LAYERS.Conv2D(width, 1, name=f"pw{number}")(x)
        x = _LAYERS.Conv2D(width, 1, activation="swish", name=f"mix{number}")(x)
        x = _LAYERS.Add(name=f"sum{number}")([x, before])
    x = _LAYERS.GlobalAveragePooling2D(name="pool")(x)
    return tf.keras.Model(given, _LAYERS.Dense(10, activation="softmax", name="head")(x))


def lstm() -> Any:
    given = _LAYERS.Input((12, 8), name="frames")
    x = _LAYERS.LSTM(16, return_sequences=True, name="first")(given)
    return tf.keras.Model(given, _LAYERS.Dense(4, name="head")(_LAYERS.LSTM(8, name="last")(x)))


def transformer() -> Any:
    given = x = _LAYERS.Input((16, 32), name="tokens")
    for number in range(2):
        seen = _LAYERS.MultiHeadAttention(2, 16, name=f"attention{number}")(x, x)
        x = _LAYERS.LayerNormalization(name=f"norm{number}a")(x + seen)
        # ONNX has no Erfc, of which the exact one is made
        wide = _LAYERS.Dense(64, name=f"wide{number}")(x)
        wide = tf.keras.activations.gelu(wide, approximate=True)
        narrow = _LAYERS.Dense(32, name=f"narrow{number}")(wide)
        x = _LAYERS.LayerNormalization(name=f"norm{number}b")(x + narrow)
    mean = _LAYERS.GlobalAveragePooling1D(name="mean")(x)
    return tf.keras.Model(given, _LAYERS.Dense(4, name="head")(mean))


def wide() -> Any:
    """Weights of so many elements that the converter holds all of them in 8 bits."""
    given = _LAYERS.Input((16, 16, 24), name="planes")
    x = _LAYERS.Conv2D(48, 3, padding="same", activation="relu", name="square")(given)
    before = x = _LAYERS.Conv2D(128, 1, activation="relu6", name="point")(x)
    x = _LAYERS.DepthwiseConv2D(3, padding="same", name="each")(x)
    x = _LAYERS.Conv2D(64, 3, 2, padding="same", name="down")(_LAYERS.Add(name="sum")([x, before]))
    x = _LAYERS.Conv2DTranspose(32, 2, 2, name="up")(_LAYERS.LeakyReLU(name="leaky")(x))
    x = _LAYERS.Dense(96, activation="tanh", name="first")(
        _LAYERS.GlobalMaxPooling2D(name="max")(x)
    )
    return tf.keras.Model(given, _LAYERS.Dense(12, name="head")(x))


def mobile() -> Any:
    """Separable convolutions, hard swish, and a gate for each channel."""
    given = _LAYERS.Input((24, 24, 3), name="picture")
    x = _LAYERS.Conv2D(16, 3, 2, padding="same", use_bias=False, name="entry")(given)
    x = _LAYERS.Activation("hard_swish")(_LAYERS.BatchNormalization(name="entry_bn")(x))
    for number, width in enumerate((24, 40)):
        x = _LAYERS.SeparableConv2D(width, 3, padding="same", name=f"separable{number}")(x)
        x = _LAYERS.BatchNormalization(name=f"separable{number}_bn")(x)
        before = x = _LAYERS.Activation("hard_swish")(x)
        gate = _LAYERS.GlobalAveragePooling2D(keepdims=True, name=f"squeeze{number}")(x)
        gate = _LAYERS.Conv2D(8, 1, activation="relu", name=f"reduce{number}")(gate)
        gate = _LAYERS.Conv2D(width, 1, activation="hard_sigmoid", name=f"excite{number}")(gate)
        x = _LAYERS.Multiply(name=f"gated{number}")([x, gate])
        x = _LAYERS.Conv2D(width, 1, name=f"project{number}")(x)
        x = _LAYERS.MaxPooling2D(name=f"half{number}")(
            _LAYERS.Add(name=f"rest{number}")([x, before])
        )
    x = _LAYERS.GlobalAveragePooling2D(name="pool")(x)
    return tf.keras.Model(given, _LAYERS.Dense(6, name="classes")(x))


def gru() -> Any:
    """A loop, attention over its states and layer norm."""
    given = _LAYERS.Input((10, 12), name="steps")
    x = states = _LAYERS.GRU(24, return_sequences=True, name="states")(given)
    seen = _LAYERS.MultiHeadAttention(3, 8, name="attend")(x, x)
    x = _LAYERS.LayerNormalization(name="norm")(states + seen)
    x = _LAYERS.Dense(20, activation="leaky_relu", name="dense")(x)
    return tf.keras.Model(given, _LAYERS.Dense(5, name="each")(x))


NETWORKS: dict[str, Callable[[], Any]] = {
    "tf-cnn": cnn,
    "tf-lstm": lstm,
    "tf-transformer": transformer,
    "tf-wide": wide,
    "tf-mobile": mobile,
    "tf-gru": gru,
}
_BATCH = {"tf-wide": 3}
_LOOPED = frozenset({"tf-lstm", "tf-gru"})
"""The converter's calibration ends the process at loops, so there is no ``int8`` of these."""


def made(name: str, folder: Path) -> tuple[Path, np.ndarray]:
    """The ONNX file of a network in *folder*, and an input for it; the converted models lie beside
    it, ``{name}.{kind}.tflite``, as far as the converter can make them."""
    rng = np.random.default_rng(5)
    tf.keras.utils.set_random_seed(3)
    network = NETWORKS[name]()
    for each in network.variables:  # as if it had been trained
        if any(word in each.path for word in ("variance", "gamma")):
            each.assign(rng.uniform(0.5, 1.5, each.shape))
        elif any(word in each.path for word in ("moving_mean", "beta", "bias")):
            each.assign(rng.normal(0, 0.2, each.shape))
    shape = (_BATCH.get(name, 1), *network.inputs[0].shape[1:])
    signature = [tf.TensorSpec(shape, name=network.inputs[0].name)]
    function = tf.function(lambda x: network(x, training=False), input_signature=signature)
    frozen = convert_variables_to_constants_v2(
        function.get_concrete_function(), lower_control_flow=False
    )
    golden = folder / f"{name}.onnx"
    tf2onnx.convert.from_graph_def(
        frozen.graph.as_graph_def(),
        input_names=[each.name for each in frozen.inputs],
        output_names=[each.name for each in frozen.outputs],
        opset=17,
        output_path=str(golden),
    )
    samples = [rng.normal(size=shape).astype(np.float32) for _ in range(32)]
    for kind in KINDS[:2] if name in _LOOPED else KINDS:
        converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
        if kind != "float":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == "int8":
            converter.representative_dataset = lambda: ([each] for each in samples)
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        try:
            (folder / f"{name}.{kind}.tflite").write_bytes(converter.convert())
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            print(f"{name} {kind}: {str(error).splitlines()[0]}")
    return golden, samples[0]
