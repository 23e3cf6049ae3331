"""Larger training steps for ``training_graphs.py``: whole networks, and ops few of them have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from training_graphs import Sheet


def resnet20(sheet: Sheet) -> Any:
    """ResNet-20 on images of 32 x 32: batch normalisation in training, weight decay; Momentum."""
    tf, v1 = sheet.tf, sheet.v1
    x, labels = sheet.normal("x", 8, 32, 32, 3), sheet.classes("labels", 10, 8)
    updates: list[Any] = []

    def unit(y: Any, new: int, stride: int, size: int = 3) -> Any:
        old, name = int(y.shape[-1]), f"unit{len(updates)}"
        wide = np.sqrt(2 / (size * size * old))
        kernel = sheet.variable(f"{name}_kernel", size, size, old, new, spread=wide)
        y = tf.nn.conv2d(y, kernel, strides=stride, padding="SAME")
        y, mean, variance = _normalised(sheet, name, y)
        for each, value in (("mean", mean), ("variance", variance)):
            moving = v1.get_variable(f"{name}_{each}", initializer=np.ones(new, "f4"))
            updates.append(moving.assign_sub(0.1 * (moving - value)))
        return y

    y = tf.nn.relu(unit(x, 16, 1))
    for channels in (16, 32, 64):
        for stride in (1 if channels == 16 else 2, 1, 1):
            z = unit(tf.nn.relu(unit(y, channels, stride)), channels, 1)
            y = tf.nn.relu((y if y.shape == z.shape else unit(y, channels, stride, 1)) + z)
    kernels = [each for each in v1.global_variables() if each.op.name.endswith("_kernel")]
    decay = tf.add_n([tf.nn.l2_loss(each) for each in kernels])
    logits = sheet.dense("last", tf.reduce_mean(y, [1, 2]), 64, 10)
    loss = sheet.entropy(labels, logits) + 1e-4 * decay
    trained = [each for each in v1.trainable_variables() if not each.op.name.endswith(_MOVING)]
    with v1.control_dependencies(updates):
        return v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, var_list=trained)


_MOVING = ("_mean", "_variance")


def _normalised(sheet: Sheet, name: str, y: Any) -> Any:
    channels = int(y.shape[-1])
    scale = sheet.variable(f"{name}_scale", channels, spread=0.1, middle=1.0)
    shift = sheet.variable(f"{name}_shift", channels, spread=0.1)
    return sheet.v1.nn.fused_batch_norm(y, scale, shift, is_training=True)[:3]


def mobilenet(sheet: Sheet) -> Any:
    """Blocks that widen, convolve each channel apart and narrow; LARS written out."""
    tf, v1 = sheet.tf, sheet.v1
    x, labels = sheet.normal("x", 4, 14, 14, 3), sheet.classes("labels", 5, 4)

    def point(name: str, y: Any, new: int, size: int = 1, stride: int = 1) -> Any:
        old = int(y.shape[-1])
        wide = 1.2 / np.sqrt(size * size * old)
        kernel = sheet.variable(f"{name}_kernel", size, size, old, new, spread=wide)
        y = tf.nn.conv2d(y, kernel, strides=stride, padding="SAME")
        return _normalised(sheet, name, y)[0]

    y = tf.nn.relu6(point("stem", x, 8, 3, 2))
    for number, (wide, new, stride) in enumerate(((16, 8, 1), (24, 12, 2), (24, 12, 1))):
        z = tf.nn.relu6(point(f"widen{number}", y, wide))
        kernel = sheet.variable(f"deep{number}_kernel", 3, 3, wide, 1, spread=0.4)
        z = tf.nn.depthwise_conv2d(z, kernel, [1, stride, stride, 1], "SAME")
        z = tf.nn.relu6(_normalised(sheet, f"deep{number}", z)[0])
        z = point(f"narrow{number}", z, new)
        y = y + z if y.shape == z.shape else z
    logits = sheet.dense("last", tf.reduce_mean(y, [1, 2]), 12, 5)
    variables = v1.trainable_variables()
    updates = []
    gradients = tf.gradients(sheet.entropy(labels, logits), variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        zeros = np.zeros(variable.shape, np.float32)
        momentum = v1.get_variable(f"{variable.op.name}/m", initializer=zeros, trainable=False)
        ours, its = tf.norm(variable), tf.norm(gradient)
        share = 1e-3 * ours / (its + 1e-4 * ours + 1e-9)
        trust = tf.where(ours > 0, tf.where(its > 0, share, 1.0), 1.0)
        step = momentum.assign(0.9 * momentum + trust * (gradient + 1e-4 * variable))
        updates.append(variable.assign_sub(0.1 * step))
    return v1.group(*updates, name="train")


def volumes(sheet: Sheet) -> Any:
    """Convolutions of volumes, pools with ties behind a Relu, transposed ones; Adadelta."""
    tf = sheet.tf
    x, targets = sheet.normal("x", 2, 6, 8, 8, 2), sheet.normal("targets", 2, 4)
    y = tf.nn.conv3d(x, sheet.variable("first", 3, 3, 3, 2, 6), [1] * 5, "SAME")
    y = tf.nn.max_pool3d(tf.nn.relu(tf.nn.bias_add(y, sheet.variable("first_b", 6))), 2, 2, "SAME")
    kernel = sheet.variable("second", 2, 3, 3, 6, 6, spread=0.2)
    y = tf.nn.conv3d(y, kernel, [1, 1, 2, 2, 1], "SAME")
    y = tf.nn.avg_pool3d(y, [1, 2, 2, 2, 1], [1] * 5, "SAME")
    kernel = sheet.variable("up", 2, 2, 2, 4, 6)
    y = tf.nn.conv3d_transpose(y, kernel, [2, 6, 4, 4, 4], [1, 2, 2, 2, 1], "SAME")
    y = tf.reduce_mean(tf.nn.swish(y), [1, 2, 3])
    loss = tf.reduce_mean(tf.abs(y - targets), name="loss")
    return sheet.v1.train.AdadeltaOptimizer(0.5).minimize(loss)


def resized(sheet: Sheet) -> Any:
    """Images resized in every way and back, tiled, cut, mirrored, summed by segments; RMSProp."""
    tf, v1 = sheet.tf, sheet.v1
    x, size = sheet.normal("x", 2, 9, 7, 3), [8, 10]
    y = tf.nn.selu(tf.nn.conv2d(x, sheet.variable("k", 3, 3, 3, 6), strides=2, padding="VALID"))
    bent = [v1.image.resize_bilinear(y, size, align_corners=True), tf.image.resize(y, size)]
    bent.append(v1.image.resize_nearest_neighbor(y, size))
    bent.append(tf.raw_ops.ResizeBicubic(images=y, size=size, half_pixel_centers=True))
    bent.append(tf.image.resize(y, size, "lanczos3"))
    z = tf.tile(tf.concat(bent, 3)[:, 1:-1:2, ::-1, :], [1, 2, 1, 1])
    z = tf.pad(z, [[0, 0], [1, 0], [0, 2], [0, 0]], mode="REFLECT")
    flat = tf.reshape(
        tf.nn.conv2d(z, sheet.variable("last", 1, 1, 30, 4), strides=1, padding="SAME"), [-1, 4]
    )
    ids, targets = sheet.classes("ids", 6, int(flat.shape[0])), sheet.normal("targets", 6, 4)
    sums = tf.math.unsorted_segment_sum(flat, ids, 6) + tf.math.unsorted_segment_mean(flat, ids, 6)
    found = tf.nn.softplus(sums) + tf.math.unsorted_segment_max(flat, ids, 6)
    loss = tf.reduce_mean(tf.math.squared_difference(found, targets), name="loss")
    return v1.train.RMSPropOptimizer(0.003, momentum=0.5, centered=True).minimize(loss)


def cells(sheet: Sheet) -> Any:
    """Two LSTMs as one op each, with and without a look at the cell; Adam."""
    tf, units = sheet.tf, 7
    x, targets = sheet.normal("x", 6, 4, 5), sheet.normal("targets", 4, units)
    rest = {name: sheet.variable(name, units) for name in ("wci", "wcf", "wco")}
    rest |= dict.fromkeys(("cs_prev", "h_prev"), tf.zeros([4, units]))
    rest["seq_len_max"] = tf.constant(6, tf.int64)
    weights, bias = sheet.variable("one", 5 + units, 4 * units), sheet.variable("one_b", 4 * units)
    first = tf.raw_ops.BlockLSTM(x=x, w=weights, b=bias, use_peephole=True, **rest)
    weights, bias = sheet.variable("two", 2 * units, 4 * units), sheet.variable("two_b", 4 * units)
    second = tf.raw_ops.BlockLSTMV2(x=first.h, w=weights, b=bias, use_peephole=False, **rest)
    loss = tf.reduce_mean(tf.square(second.h[-1] - targets), name="loss")
    return sheet.v1.train.AdamOptimizer(0.01).minimize(loss)
