"""Normalisations over batches, layers and neighbours, and their gradients."""

from __future__ import annotations

import numpy as np

EPS = 1e-5
LEAST = 1e-12
"""What GE's gradients of layer norm add to a variance."""


def batches(add, draw):
    x, count = draw.held(draw(3, 6, 4, 4) + 1), 48
    scale, offset = draw(6), draw(6)
    sums = [draw.held(x.sum((0, 2, 3))), draw.held((x**2).sum((0, 2, 3)))]
    mean = sums[0] / count
    var = sums[1] / count - mean**2
    made = (x - _by(mean)) / np.sqrt(_by(var) + EPS) * _by(scale) + _by(offset)
    unbiased = var * count / (count - 1)
    add("bn_sums", "BNTrainingReduce", [x], [x.sum((0, 2, 3)), (x**2).sum((0, 2, 3))], ("NCHW",))
    old = [draw(6), draw.positive(6)]
    held = [0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * unbiased]
    whole = [x, *sums, scale, offset]
    seven = ("NCHW", *[""] * 6, "NCHW")
    now = {"epsilon": EPS, "factor": 0.1}
    add("bn", "BNTrainingUpdate", [*whole, *old], [made, *held, mean, var], seven, **now)
    five = ("NCHW", *[""] * 4, "NCHW")
    add("bn_2", "BNTrainingUpdateV2", whole, [made, mean, var], five, epsilon=EPS)
    third = [made, mean, unbiased, mean, var]
    add("bn_3", "BNTrainingUpdateV3", whole, third, five, epsilon=EPS)


def _by(value):
    return value[:, None, None]


def fixed_batches(add, draw):
    x, scale, offset, mean, var = draw(3, 6, 4, 4), draw(6), draw(6), draw(6), draw.positive(6)
    made = (x - _by(mean)) / np.sqrt(_by(var) + EPS) * _by(scale) + _by(offset)
    five, three = ("NCHW", *[""] * 4, "NCHW"), ("NCHW", "", "", "NCHW")
    add("bn_infer", "BNInfer", [x, scale, offset, mean, var], [made], five, epsilon=EPS)
    said = {"epsilon": EPS, "is_training": False, "data_format": "NCHW"}
    add("batch_norm", "BatchNorm", [x, scale, offset, mean, var], [made], five, **said)
    back = x * _by(scale) / np.sqrt(_by(var) + EPS)
    add("bn_infer_grad", "BNInferGrad", [x, scale, var], [back], three, epsilon=EPS)
    # The host has turned mean and variance into what is added and multiplied.
    moved = (x + _by(mean)) * _by(var)
    add("bn_inference", "BNInferenceD", [x, mean, var], [moved], three, epsilon=EPS)
    whole = [moved * _by(scale) + _by(offset)]
    add("bn_inference_scaled", "BNInferenceD", [x, mean, var, scale, offset], whole, five)


def batch_gradients(add, draw):
    x, g, count = draw.held(draw(3, 6, 4, 4) + 1), draw(3, 6, 4, 4), 48
    scale = draw(6)
    mean, var = draw.held(x.mean((0, 2, 3))), draw.held(x.var((0, 2, 3)))
    normal = (x - _by(mean)) / np.sqrt(_by(var) + EPS)
    by_scale, by_offset = (g * normal).sum((0, 2, 3)), g.sum((0, 2, 3))
    sums = [by_scale, by_offset]
    add("bn_scales", "BNTrainingUpdateGrad", [g, x, mean, var], sums, ("NCHW",) * 2, epsilon=EPS)
    by_scale, by_offset = draw.held(by_scale), draw.held(by_offset)
    back = g - _by(by_offset) / count - normal * _by(by_scale) / count
    back *= _by(scale / np.sqrt(var + EPS))
    read = [g, x, by_scale, by_offset, scale, mean, var]
    seven = ("NCHW", "NCHW", *[""] * 5, "NCHW")
    add("bn_grad", "BNTrainingReduceGrad", read, [back], seven, epsilon=EPS)


def layers(add, draw):
    t, gamma, beta, g = draw(5, 24), draw(24), draw(24), draw(5, 24)
    m, v = t.mean(-1, keepdims=True), t.var(-1, keepdims=True)
    made = (t - m) / np.sqrt(v + EPS) * gamma + beta
    axes = {"begin_norm_axis": -1, "begin_params_axis": -1}
    add("layer", "LayerNorm", [t, gamma, beta], [made, m, v], epsilon=EPS, **axes)
    m, v = draw.held(m), draw.held(v)
    normal = (t - m) / np.sqrt(v + LEAST)
    scaled = g * gamma
    left = scaled - scaled.mean(-1, keepdims=True)
    # The gradient of the mean by way of the variance is left out: it is zero.
    back = (left - normal * (scaled * normal).mean(-1, keepdims=True)) / np.sqrt(v + LEAST)
    sums = [(g * normal).sum(0), g.sum(0)]
    add("layer_dx", "LayerNormXBackprop", [g, t, v, m, gamma], [back])
    add("layer_dx_2", "LayerNormXBackpropV2", [g, t, v, m, gamma], [back, normal])
    add("layer_dx_3", "LayerNormXBackpropV3", [g, t, v, m, gamma], [back, normal])
    add("layer_grad", "LayerNormGrad", [g, t, v, m, gamma], [back, *sums])
    add("layer_dw", "LayerNormBetaGammaBackprop", [g, t, v, m], sums, shape_gamma=(24,))
    held = draw.held(normal)
    sums = [(g * held).sum(0), g.sum(0)]
    add("layer_dw_2", "LayerNormBetaGammaBackpropV2", [g, held], sums, shape_gamma=(24,))


def neighbours(add, draw):
    x, y = draw(4, 19), draw(2, 7, 4, 4)
    length = np.sqrt(np.maximum((x**2).sum(1, keepdims=True), 1e-4))
    add("unit", "L2Normalize", [x], [x / length], axis=(1,), eps=1e-4)
    squares = np.pad(y**2, ((0, 0), (2, 2), (0, 0), (0, 0)))
    around = sum(squares[:, at : at + 7] for at in range(5))
    made = y / (2 + 0.5 * around) ** 0.75
    said = {"depth_radius": 2, "bias": 2.0, "alpha": 0.5, "beta": 0.75}
    add("lrn", "LRN", [y], [made], ("NCHW", "NCHW"), **said)
    add("running", "Cumsum", [x, np.array(1, np.int32)], [x.cumsum(1)])
    before = x[::-1].cumsum(0)[::-1] - x
    add("running_d", "CumsumD", [x], [before], axis=0, exclusive=True, reverse=True)


def dropped(add, draw):
    x = draw(4, 19)
    bits = draw(128) > 0
    mask = np.packbits(bits, bitorder="little")
    made = np.where(bits[:76].reshape(4, 19), x / 0.5, 0)
    add("dropped", "DropOutDoMask", [x, mask, draw.held([0.5])], [made])
    flags = np.zeros(128, np.uint8)
    flags[:76] = bits[:76]
    add("dropped_3", "DropOutDoMaskV3", [x, flags, draw.held([0.5])], [made])
    add("dropped_3d", "DropOutDoMaskV3D", [x, flags], [made], keep_prob=0.5)


PARTS = (batches, fixed_batches, batch_gradients, layers, neighbours, dropped)
