"""Gradients of activations, and the steps of optimisers."""

from __future__ import annotations

import numpy as np

from tests.verification.definitions.elementwise import sigmoid

BY_OUTPUT = {
    "TanhGrad": lambda y: 1 - y**2,
    "SigmoidGrad": lambda y: y * (1 - y),
    "SqrtGrad": lambda y: 0.5 / y,
    "RsqrtGrad": lambda y: -0.5 * y**3,
    "ReciprocalGrad": lambda y: -(y**2),
}


def gradients(add, draw):
    for op, slope in BY_OUTPUT.items():
        y, g = draw.positive(4, 19), draw(4, 19)
        add(op, op, [y, g], [slope(y) * g])
    g, x = draw(4, 19), draw.held(draw(4, 19) * 4)
    add("relu", "ReluGrad", [g, x], [g * (x > 0)])
    add("relu6", "Relu6Grad", [g, x], [g * ((x > 0) & (x < 6))])
    add("leaky", "LeakyReluGrad", [g, x], [np.where(x > 0, g, 0.1 * g)], negative_slope=0.1)
    made = draw.held(np.where(x > 0, x, np.expm1(x)))
    add("elu", "EluGrad", [g, made], [np.where(made > 0, g, g * (made + 1))])
    add("softplus", "SoftplusGrad", [g, x], [g * sigmoid(x)])


def _one(draw, *values):
    return [draw.held(value) for value in values]


def descents(add, draw):
    var, held, g = draw(30), draw(30), draw(30)
    rate, share = _one(draw, 0.05, 0.9)
    add("descent", "ApplyGradientDescent", [var, rate, g], [var - rate * g])
    moved = held * share + g
    ahead = var - rate * (g + moved * share)
    for op in ("ApplyMomentum", "ApplyMomentumD"):
        read = [var, held, rate, g, share]
        add(op, op, read, [var - rate * moved, moved])
        add(f"{op}_ahead", op, read, [ahead, moved], use_nesterov=True)
    damped = held * share + (g + 0.01 * var) * 0.75
    read = [var, g, rate, held, share, draw(30)]
    said = {"dampening": 0.25, "weight_decay": 0.01}
    add("sgd", "SGD", read, [var - rate * damped], nesterov=False, **said)
    ahead = g + moved * share
    add("sgd_ahead", "SGD", read, [var - rate * ahead], nesterov=True)
    add("assign", "Assign", [var, g], [g])
    add("assign_add", "AssignAdd", [var, g], [var + g])
    add("assign_sub", "AssignSub", [var, g], [var - g])


def adaptive(add, draw):
    var, m, g, v = draw(30), draw(30), draw(30), draw.positive(30)
    power1, power2, rate, beta1, beta2, eps = given = _one(draw, 0.8, 0.9, 0.05, 0.9, 0.98, 1e-3)
    now_m, now_v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    scaled = rate * np.sqrt(1 - power2) / (1 - power1)
    step = scaled * now_m / (np.sqrt(now_v) + eps)
    ahead = scaled * (now_m * beta1 + (1 - beta1) * g) / (np.sqrt(now_v) + eps)
    for op in ("ApplyAdam", "ApplyAdamD"):
        read = [var, m, v, *given, g]
        add(op, op, read, [var - step, now_m, now_v])
        add(f"{op}_ahead", op, read, [var - ahead, now_m, now_v], use_nesterov=True)
    rho, share = _one(draw, 0.75, 0.9)
    square = v + (g * g - v) * (1 - rho)
    mom = m * share + rate * g / np.sqrt(square + 0.0625)
    made = [var - mom, square, mom]
    said = {"rho": 0.75, "momentum": float(share), "epsilon": 0.0625}
    add("rms_d", "ApplyRMSPropD", [var, v, m, rate, g], made, **said)
    add("rms", "ApplyRMSProp", [var, v, m, rate, rho, share, draw.held(0.0625), g], made)
    grown = v + g * g
    made = [var - rate * g / np.sqrt(grown), grown]
    add("adagrad", "ApplyAdagrad", [var, v, rate, g], made)
    add("adagrad_d", "ApplyAdagradD", [var, v, rate, g], made, update_slots=True)


def lars(add, draw):
    w, g = draw(30), draw(30)
    decay, rate = _one(draw, 0.125, 0.25)
    sums = [draw.held((w**2).sum()), draw.held((g**2).sum())]

    def made(clips, one, other):
        share = 0.5 * np.sqrt(one) / (np.sqrt(other) + decay * np.sqrt(one) + 1e-5)
        share = np.clip(share / rate, 0, 1) if clips else share
        return share * (g + decay * w)

    for clips in (False, True):
        said = {"hyperpara": 0.5, "epsilon": 1e-5, "use_clip": clips}
        step = [made(clips, *sums)]
        add(f"lars_{clips}", "LarsV2Update", [w, g, *sums, decay, rate], step, **said)
        step = [made(clips, (w**2).sum(), (g**2).sum())]
        add(f"lars_whole_{clips}", "LarsV2", [w, g, decay, rate], step, **said)


def lamb(add, draw):
    g, m, param, v = draw(30), draw(30), draw(30), draw.positive(30)
    beta1, rest1, beta2, rest2 = _one(draw, 0.875, 0.125, 0.9375, 0.0625)
    eps, steps, uses, decay = _one(draw, 0.015625, 3.0, 1.0, 0.125)
    now_m, now_v = beta1 * m + rest1 * g, beta2 * v + rest2 * g * g
    left1, left2 = 1 - beta1**steps, 1 - beta2**steps
    ratio = (now_m / left1) / (np.sqrt(now_v / left2) + eps)
    read = [g, v, m, param, beta1, rest1, beta2, rest2, eps, steps, uses, decay]
    add("lamb", "LambApplyOptimizerAssign", read, [ratio + uses * decay * param, now_v, now_m])
    squares, left1, left2 = draw.held(g * g), draw.held(left1), draw.held(left2)
    now_v = beta2 * v + rest2 * squares
    ratio = (now_m / left1) / (np.sqrt(now_v / left2) + eps)
    read = [squares, v, left2, g, m, left1, param, beta1, rest1, beta2, rest2, decay, eps]
    add("lamb_mv", "LambNextMV", read, [ratio + decay * param, now_m, now_v, ratio])
    length, other, rate, zero, one = _one(draw, 1.5, 0.75, 0.25, 0.0, 1.0)
    for name, size in (("lamb_step", other), ("lamb_step_zero", zero)):
        share = length / size if size > 0 else 1.0
        step = [param - share * rate * g]
        add(name, "LambUpdateWithLrV2", [length, size, rate, g, param, zero, one], step)
        add(f"{name}_assign", "LambApplyWeightAssign", [length, size, rate, g, param], step)


PARTS = (gradients, descents, adaptive, lars, lamb)
