"""Training steps of TensorFlow, written here: optimizers, normalisations, loops, sparse gradients.

    python benchmarks/root_cause/training_graphs.py cnn FOLDER

writes ``model.ckpt.meta`` with its checkpoint after three steps, and one ``.npy`` for each tensor
to feed. A process of its own makes each: kinds of variables and loops are settings of TensorFlow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from training_nets import cells, mobilenet, resized, resnet20, volumes

FEEDS = "feeds.json"
"""The file by tensor name, written beside the model."""
_STEPS = 3


class Sheet:
    """A graph being written: variables, placeholders and their values, all of one seed."""

    def __init__(self, tf: Any, seed: int) -> None:
        self.tf = tf
        self.v1 = tf.compat.v1
        self.rng = np.random.default_rng(seed)
        self.feeds: dict[Any, np.ndarray] = {}
        self.v1.set_random_seed(seed)

    def variable(self, name: str, *shape: int, spread: float = 0.3, middle: float = 0.0) -> Any:
        """A float variable with random first values."""
        values = middle + spread * self.rng.standard_normal(shape)
        return self.v1.get_variable(name, initializer=values.astype(np.float32))

    def fed(self, name: str, values: np.ndarray) -> Any:
        """A placeholder of fixed shape, and what it is fed."""
        made = self.v1.placeholder(values.dtype, values.shape, name)
        self.feeds[made] = values
        return made

    def normal(self, name: str, *shape: int) -> Any:
        """A placeholder fed normal numbers."""
        return self.fed(name, self.rng.standard_normal(shape).astype(np.float32))

    def classes(self, name: str, count: int, *shape: int) -> Any:
        """A placeholder fed whole numbers below *count*."""
        return self.fed(name, self.rng.integers(0, count, shape).astype(np.int32))

    def dense(self, name: str, x: Any, old: int, new: int) -> Any:
        """A fully connected layer."""
        weights = self.variable(f"{name}_w", old, new, spread=1.2 / np.sqrt(old))
        product = self.tf.matmul(x, weights)
        return self.tf.nn.bias_add(product, self.variable(f"{name}_b", new))

    def entropy(self, labels: Any, logits: Any) -> Any:
        """The mean of the cross entropies."""
        each = self.tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return self.tf.reduce_mean(each, name="loss")


def mlp(sheet: Sheet) -> Any:
    """Layers with Relu and Tanh, Dropout, weight decay; Adam on variables of the old kind."""
    tf = sheet.tf
    x, labels = sheet.normal("x", 16, 20), sheet.classes("labels", 5, 16)
    h = tf.nn.relu(sheet.dense("first", x, 20, 32))
    h = sheet.v1.nn.dropout(h, rate=0.3, seed=3)
    h = tf.tanh(sheet.dense("second", h, 32, 24))
    logits = sheet.dense("third", h, 24, 5)
    decay = tf.add_n([tf.nn.l2_loss(each) for each in sheet.v1.trainable_variables()])
    loss = sheet.entropy(labels, logits) + 1e-3 * decay
    return sheet.v1.train.AdamOptimizer(0.01).minimize(loss)


def cnn(sheet: Sheet) -> Any:
    """Convolutions with batch normalisation in training, pools; Momentum on resources."""
    tf = sheet.tf
    x, labels = sheet.normal("x", 8, 12, 12, 3), sheet.classes("labels", 5, 8)
    updates = []
    for number, (old, new) in enumerate(((3, 8), (8, 16))):
        kernel = sheet.variable(f"kernel{number}", 3, 3, old, new, spread=1.2 / np.sqrt(9 * old))
        x = tf.nn.conv2d(x, kernel, strides=1, padding="SAME")
        scale = sheet.variable(f"scale{number}", new, spread=0.1, middle=1.0)
        shift = sheet.variable(f"shift{number}", new, spread=0.2)
        x, mean, variance = sheet.v1.nn.fused_batch_norm(x, scale, shift, is_training=True)[:3]
        for name, value in (("mean", mean), ("variance", variance)):
            moving = sheet.v1.get_variable(f"moving_{name}{number}", initializer=np.ones(new, "f4"))
            updates.append(moving.assign_sub(0.1 * (moving - value)))
        x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "VALID")
    logits = sheet.dense("last", tf.reshape(x, [8, 144]), 144, 5)
    train = sheet.v1.train.MomentumOptimizer(0.01, 0.9).minimize(sheet.entropy(labels, logits))
    with sheet.v1.control_dependencies([train, *updates]):
        return sheet.v1.no_op("train_all")


def embedding(sheet: Sheet) -> Any:
    """Words looked up twice, so gradients are sparse and their rows add up; Adagrad."""
    tf = sheet.tf
    words, targets = sheet.classes("words", 50, 8, 6), sheet.normal("targets", 8)
    table = sheet.variable("table", 50, 16)
    e = tf.nn.embedding_lookup(table, words)
    h = tf.nn.elu(sheet.dense("first", tf.reduce_mean(e, 1), 16, 12))
    h = tf.concat([h, tf.nn.embedding_lookup(table, words[:, 0])], 1)
    p = tf.squeeze(sheet.dense("last", h, 28, 1), 1)
    loss = tf.reduce_mean(tf.square(p - targets), name="loss")
    return sheet.v1.train.AdagradOptimizer(0.05).minimize(loss)


def recurrent(sheet: Sheet) -> Any:
    """A loop over time that reads a TensorArray, and its gradient's loop; plain descent."""
    tf = sheet.tf
    x, targets = sheet.normal("x", 4, 7, 10), sheet.normal("targets", 4, 12)
    weights, bias = sheet.variable("weights", 22, 12), sheet.variable("bias", 12)
    steps = tf.TensorArray(tf.float32, 7).unstack(tf.transpose(x, [1, 0, 2]))

    def turn(time: Any, h: Any) -> tuple[Any, Any]:
        return time + 1, tf.tanh(tf.matmul(tf.concat([steps.read(time), h], 1), weights) + bias)

    _, h = tf.while_loop(lambda time, _h: time < 7, turn, [tf.constant(0), tf.zeros([4, 12])])
    h = sheet.dense("last", h, 12, 12)
    loss = tf.reduce_mean(tf.square(h - targets), name="loss")
    return sheet.v1.train.GradientDescentOptimizer(0.05).minimize(loss)


def attention(sheet: Sheet) -> Any:
    """Attention with layer normalisation spelled out, clipped gradients; Adam on resources."""
    tf, wide = sheet.tf, 24
    x, labels = sheet.normal("x", 4, 9, wide), sheet.classes("labels", 6, 4)

    def normalised(name: str, y: Any) -> Any:
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        scale = sheet.variable(f"{name}_scale", wide, spread=0.1, middle=1.0)
        scaled = (y - mean) * tf.math.rsqrt(variance + 1e-5) * scale
        return scaled + sheet.variable(f"{name}_shift", wide)

    def projected(name: str, y: Any) -> Any:
        weights = sheet.variable(name, wide, wide, spread=1.2 / np.sqrt(wide))
        return tf.reshape(tf.matmul(tf.reshape(y, [-1, wide]), weights), [4, 9, wide])

    y = normalised("before", x)
    q, k, v = (projected(name, y) for name in ("query", "key", "value"))
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.sqrt(wide))
    y = x + projected("out", tf.matmul(weights, v))
    y = tf.nn.gelu(projected("inner", normalised("behind", y)))
    logits = sheet.dense("last", tf.reduce_mean(y, 1), wide, 6)
    optimizer = sheet.v1.train.AdamOptimizer(0.01)
    gradients, variables = zip(
        *optimizer.compute_gradients(sheet.entropy(labels, logits)), strict=True
    )
    clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
    return optimizer.apply_gradients(zip(clipped, variables, strict=True))


def autoencoder(sheet: Sheet) -> Any:
    """Strided and transposed convolutions, depthwise ones, average pools; RMSProp."""
    tf = sheet.tf
    x = sheet.normal("x", 4, 12, 12, 4)
    kernel = sheet.variable("down", 3, 3, 4, 12, spread=0.2)
    h = tf.nn.leaky_relu(tf.nn.conv2d(x, kernel, strides=2, padding="SAME"), 0.1)
    h = tf.nn.depthwise_conv2d(h, sheet.variable("deep", 3, 3, 12, 1), [1, 1, 1, 1], "SAME")
    h = tf.sigmoid(tf.nn.bias_add(h, sheet.variable("deep_b", 12)))
    h = h * tf.nn.avg_pool2d(h, 3, 1, "SAME")
    kernel = sheet.variable("up", 3, 3, 4, 12, spread=0.2)
    y = tf.nn.conv2d_transpose(h, kernel, [4, 12, 12, 4], strides=2, padding="SAME")
    y = tf.nn.bias_add(y, sheet.variable("up_b", 4))
    loss = tf.reduce_mean(tf.math.squared_difference(y, x), name="loss")
    return sheet.v1.train.RMSPropOptimizer(0.003, momentum=0.5).minimize(loss)


def segmenter(sheet: Sheet) -> Any:
    """A small U-Net: pools down, transposed convolutions up, joined; Adam, variables of the old
    kind."""
    tf = sheet.tf
    x = sheet.normal("x", 2, 16, 16, 3)
    masks = sheet.fed("masks", (sheet.rng.random((2, 16, 16, 1)) < 0.4).astype(np.float32))

    def block(name: str, y: Any, new: int) -> Any:
        old = int(y.shape[-1])
        kernel = sheet.variable(f"{name}_k", 3, 3, old, new, spread=1.3 / np.sqrt(9 * old))
        y = tf.nn.conv2d(y, kernel, strides=1, padding="SAME")
        scale = sheet.variable(f"{name}_scale", new, spread=0.1, middle=1.0)
        shift = sheet.variable(f"{name}_shift", new, spread=0.2)
        return tf.nn.relu(sheet.v1.nn.fused_batch_norm(y, scale, shift, is_training=True)[0])

    def up(name: str, y: Any, new: int) -> Any:
        n, high, wide, old = y.shape.as_list()
        kernel = sheet.variable(f"{name}_k", 2, 2, new, old, spread=1.2 / np.sqrt(old))
        y = tf.nn.conv2d_transpose(y, kernel, [n, 2 * high, 2 * wide, new], 2, "VALID")
        return tf.nn.bias_add(y, sheet.variable(f"{name}_b", new))

    first = block("first", x, 6)
    second = block("second", tf.nn.max_pool2d(first, 2, 2, "VALID"), 10)
    lowest = block("lowest", tf.nn.max_pool2d(second, 2, 2, "VALID"), 14)
    y = block("third", tf.concat([second, up("up_one", lowest, 10)], 3), 10)
    y = block("fourth", tf.concat([first, up("up_two", y, 6)], 3), 6)
    logits = tf.nn.conv2d(y, sheet.variable("last", 1, 1, 6, 1), strides=1, padding="SAME")
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=masks, logits=logits)
    loss = tf.reduce_mean(each, name="loss")
    return sheet.v1.train.AdamOptimizer(0.01).minimize(loss)


def encoder(sheet: Sheet) -> Any:
    """A block of a language model: words and places looked up, heads with a mask, layers
    normalised, words guessed; LAMB written out."""
    tf, v1, wide, heads = sheet.tf, sheet.v1, 24, 3
    words, targets = sheet.classes("words", 40, 4, 8), sheet.classes("targets", 40, 4, 8)
    lengths = sheet.fed("lengths", np.array([8, 5, 7, 3], np.int32))
    table, places = sheet.variable("table", 40, wide), sheet.variable("places", 8, wide)
    mask = tf.sequence_mask(lengths, 8, tf.float32)

    def normalised(name: str, y: Any) -> Any:
        mean, variance = tf.nn.moments(y, [-1], keepdims=True)
        scale = sheet.variable(f"{name}_scale", wide, spread=0.1, middle=1.0)
        shift = sheet.variable(f"{name}_shift", wide, spread=0.1)
        return tf.nn.batch_normalization(y, mean, variance, shift, scale, 1e-6)

    def in_heads(name: str, y: Any) -> Any:
        made = sheet.dense(name, tf.reshape(y, [-1, wide]), wide, wide)
        return tf.transpose(tf.reshape(made, [4, 8, heads, wide // heads]), [0, 2, 1, 3])

    y = normalised("embedded", tf.nn.embedding_lookup(table, words) + places)
    q, k, v = (in_heads(name, y) for name in ("query", "key", "value"))
    scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(wide / heads).astype("f4")
    weights = tf.nn.softmax(scores - 1e4 * (1 - mask[:, None, None, :]))
    joined = tf.reshape(tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3]), [-1, wide])
    y = normalised("attended", y + tf.reshape(sheet.dense("out", joined, wide, wide), [4, 8, wide]))
    inner = tf.nn.gelu(sheet.dense("inner", tf.reshape(y, [-1, wide]), wide, 40), approximate=True)
    outer = tf.reshape(sheet.dense("outer", inner, 40, wide), [4, 8, wide])
    y = normalised("behind", y + outer)
    logits = tf.matmul(tf.reshape(y, [-1, wide]), table, transpose_b=True)
    labels = tf.reshape(targets, [-1])
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    weight = tf.reshape(mask, [-1])
    loss = tf.divide(tf.reduce_sum(each * weight), tf.reduce_sum(weight), name="loss")
    return v1.group(*_lamb(sheet, loss, 0.01), name="train")


def _lamb(sheet: Sheet, loss: Any, rate: float) -> list[Any]:
    """Adam's steps, scaled to the norms of what they change."""
    tf, v1 = sheet.tf, sheet.v1
    variables = v1.trainable_variables()
    gradients = [tf.convert_to_tensor(each) for each in tf.gradients(loss, variables)]
    clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
    updates = []
    for variable, gradient in zip(variables, clipped, strict=True):
        zeros = np.zeros(variable.shape, np.float32)
        name = variable.op.name
        m, v = (v1.get_variable(f"{name}/{s}", initializer=zeros, trainable=False) for s in "mv")
        new_m = 0.9 * m + 0.1 * gradient
        new_v = 0.999 * v + 0.001 * tf.square(gradient)
        step = new_m / (tf.sqrt(new_v) + 1e-6) + 0.01 * variable
        ours, its = tf.norm(variable), tf.norm(step)
        ratio = tf.where(ours > 0, tf.where(its > 0, ours / its, 1.0), 1.0)
        updates += [variable.assign_sub(rate * ratio * step), m.assign(new_m), v.assign(new_v)]
    return updates


STEPS: Mapping[str, tuple[Callable[[Sheet], Any], bool, bool]] = {
    "mlp": (mlp, False, False),
    "cnn": (cnn, True, False),
    "embedding": (embedding, True, False),
    "recurrent": (recurrent, False, False),
    "recurrent-new": (recurrent, True, True),
    "attention": (attention, True, False),
    "autoencoder": (autoencoder, False, False),
    "segmenter": (segmenter, False, False),
    "encoder": (encoder, True, False),
    "resnet20": (resnet20, True, False),
    "mobilenet": (mobilenet, True, False),
    "volumes": (volumes, True, False),
    "resized": (resized, False, False),
    "cells": (cells, True, False),
}
"""What writes a step; whether variables are resources, and loops functions."""


def main() -> None:
    """Write one model."""
    kind, folder = sys.argv[1], Path(sys.argv[2])
    import tensorflow as tf

    write, resources, new_loops = STEPS[kind]
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    (v1.enable_resource_variables if resources else v1.disable_resource_variables)()
    (v1.enable_control_flow_v2 if new_loops else v1.disable_control_flow_v2)()
    sheet = Sheet(tf, 5)
    train = write(sheet)
    if train.name != "train" and train not in v1.get_collection("train_op"):
        v1.add_to_collection("train_op", train)
    folder.mkdir(parents=True, exist_ok=True)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        for _ in range(_STEPS):
            session.run(train, sheet.feeds)
        saver.save(session, str(folder / "model.ckpt"))
    files = {}
    for tensor, values in sheet.feeds.items():
        files[tensor.name] = f"{tensor.op.name}.npy"
        np.save(folder / files[tensor.name], values)
    (folder / FEEDS).write_text(json.dumps(files), encoding="utf-8")


if __name__ == "__main__":
    main()
