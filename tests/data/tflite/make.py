"""Makes the files of this folder: ``pip install tensorflow-cpu tf2onnx ai-edge-litert``, then
``python make.py``.

``net.onnx`` is the original as tf2onnx writes it; ``net.tflite`` what the converter makes of it in
float32, ``net.int8.tflite`` in whole numbers; ``dump/`` has every tensor of the first, ``dump8/``
those of the second. ``rounds.tflite`` has a While and an If.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
import tf2onnx
from ai_edge_litert.interpreter import Interpreter
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

HERE = Path(__file__).parent
SHAPE = (1, 8, 6, 2)


def network() -> tf.keras.Model:
    layers = tf.keras.layers
    rng = np.random.default_rng(2)
    given = layers.Input(SHAPE[1:], name="image")
    x = layers.Conv2D(3, 3, padding="same", use_bias=False, name="stem")(given)
    x = layers.ReLU(name="stem_relu")(layers.BatchNormalization(name="stem_bn")(x))
    x = layers.DepthwiseConv2D(3, strides=2, padding="same", name="dw")(x)
    x = layers.Conv2D(4, 1, name="pw")(layers.ReLU(6, name="dw_relu")(x))
    x = layers.GlobalAveragePooling2D(name="pool")(layers.Activation("swish", name="swish")(x))
    model = tf.keras.Model(given, layers.Dense(3, activation="softmax", name="head")(x))
    for each in model.variables:
        low, high = (0.5, 2) if "variance" in each.path or "gamma" in each.path else (-0.7, 0.7)
        each.assign(rng.uniform(low, high, each.shape))
    return model


def frozen(
    function: tf.types.experimental.GenericFunction,
) -> tf.types.experimental.ConcreteFunction:
    return convert_variables_to_constants_v2(
        function.get_concrete_function(), lower_control_flow=False
    )


def dump(model: bytes, folder: Path, image: np.ndarray) -> None:
    """As docs/how-to/capture.md says."""
    folder.mkdir(exist_ok=True)
    interpreter = Interpreter(model_content=model, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    with (folder / "mapping.csv").open("w") as names:
        for tensor in interpreter.get_tensor_details():
            np.save(folder / f"{tensor['index']}.npy", interpreter.get_tensor(tensor["index"]))
            names.write(f"{tensor['index']},{tensor['name']}\n")


@tf.function(input_signature=[tf.TensorSpec([2, 3], name="x"), tf.TensorSpec([], name="limit")])
def rounds(x: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    def grown(value: tf.Tensor) -> tuple[tf.Tensor]:
        return (value * 1.5 + 0.1,)

    (last,) = tf.while_loop(lambda value: tf.reduce_sum(value) < limit, grown, (x,))
    return tf.cond(limit > 10.0, lambda: tf.tanh(last), lambda: tf.negative(last))


def main() -> None:
    model = network()
    signature = [tf.TensorSpec(SHAPE, name="image")]
    function = frozen(tf.function(lambda x: model(x, training=False), input_signature=signature))
    graph = function.graph.as_graph_def()
    names = {"input_names": ["image:0"], "output_names": ["Identity:0"]}
    tf2onnx.convert.from_graph_def(graph, output_path=str(HERE / "net.onnx"), opset=17, **names)
    rng = np.random.default_rng(4)
    image = rng.normal(size=SHAPE).astype(np.float32)
    np.save(HERE / "image.npy", image)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    plain = converter.convert()
    (HERE / "net.tflite").write_bytes(plain)
    dump(plain, HERE / "dump", image)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
        [rng.normal(size=SHAPE).astype(np.float32)] for _ in range(16)
    )
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    whole = converter.convert()
    (HERE / "net.int8.tflite").write_bytes(whole)
    dump(whole, HERE / "dump8", image)
    looped = tf.lite.TFLiteConverter.from_concrete_functions([frozen(rounds)]).convert()
    (HERE / "rounds.tflite").write_bytes(looped)


main()
