"""Ops made by numpy, in float64, from the formulas of their definitions: all are right; with faults
put in, those and no others are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from divergraph.verification.verify_dump import verify
from graphstore.model import Verdict
from tests.made.device_ops import DeviceOps, spoiled

_EPS = 1e-5


def _conv(x, w, strides, pads, groups=1):
    """NCHW by OIHW; pads are top, bottom, left, right."""
    top, bottom, left, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = w.shape[2:]
    seen = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1]]
    each, out = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwij,ocij->nohw",
            seen[:, g * each : (g + 1) * each],
            w[g * out : (g + 1) * out],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, 1)


def _input_gradient(g, w, shape, stride, pad):
    """The gradient by the input of a convolution, place by place."""
    made = np.zeros((shape[0], shape[1], shape[2] + 2 * pad, shape[3] + 2 * pad))
    kh, kw = w.shape[2:]
    for i in range(g.shape[2]):
        for j in range(g.shape[3]):
            top, left = i * stride, j * stride
            made[:, :, top : top + kh, left : left + kw] += np.einsum(
                "no,ochw->nchw", g[:, :, i, j], w
            )
    return made[:, :, pad : pad + shape[2], pad : pad + shape[3]]


def _filter_gradient(x, g, kernel, stride, pad):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    made = np.zeros((g.shape[1], x.shape[1], *kernel))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            part = x[
                :, :, i : i + g.shape[2] * stride : stride, j : j + g.shape[3] * stride : stride
            ]
            made[:, :, i, j] = np.einsum("nohw,nchw->oc", g, part)
    return made


def _pool(x, k, stride, how):
    seen = np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::stride, ::stride]
    return how(seen, axis=(-2, -1))


def _max_gradient(x, g, k, stride):
    made = np.zeros_like(x)
    for n, c, i, j in np.ndindex(*g.shape):
        window = x[n, c, i * stride : i * stride + k, j * stride : j * stride + k]
        a, b = np.unravel_index(window.argmax(), window.shape)
        made[n, c, i * stride + a, j * stride + b] += g[n, c, i, j]
    return made


def _softmax(x, axis=-1):
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _nhwc(x):
    return x.transpose(0, 2, 3, 1)


def _convolutions(add, draw):
    x, w, b = draw(2, 6, 9, 9), draw(20, 6, 3, 3) / 5, draw(20)
    y = _conv(x, w, (2, 2), (1, 1, 1, 1)) + b[:, None, None]
    pads = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    four = ("NCHW", "NCHW", "", "NCHW")
    add("conv", "Conv2D", [x, w, b], [y], four, **pads)
    add(
        "conv_nhwc",
        "Conv2D",
        [_nhwc(x), w.transpose(2, 3, 1, 0), b],
        [_nhwc(y)],
        ("NHWC", "HWCN", "", "NHWC"),
        strides=(1, 2, 2, 1),
        pads=(1, 1, 1, 1),
    )
    add(
        "conv_relu",
        "Conv2D",
        [x, w, b],
        [np.maximum(y, 0)],
        four,
        originals=("conv", "bn_conv", "conv_relu"),
        fusion_scope=7,
    )
    add(
        "conv_fused_of_two",
        "Conv2D",
        [x, w, b],
        [np.maximum(y, 0)],
        four,
        originals=("a", "res2", "b"),
        fusion_scope=8,
    )
    v = draw(20, 3, 3, 3) / 3
    add(
        "conv_groups",
        "Conv2D",
        [x, v],
        [_conv(x, v, (1, 1), (0, 0, 0, 0), 2)],
        ("NCHW", "NCHW", "NCHW"),
        strides=(1, 1, 1, 1),
        pads=(0, 0, 0, 0),
        groups=2,
    )
    d = draw(3, 3, 6, 1)
    deep = _conv(x, d.transpose(2, 3, 0, 1), (1, 1), (1, 1, 1, 1), 6)
    add(
        "depthwise",
        "DepthwiseConv2D",
        [x, d],
        [deep],
        ("NCHW", "HWCN", "NCHW"),
        strides=(1, 1, 1, 1),
        pads=(1, 1, 1, 1),
    )
    g = draw(2, 20, 5, 5)
    add(
        "conv_dx",
        "Conv2DBackpropInputD",
        [w, g],
        [_input_gradient(g, w, x.shape, 2, 1)],
        ("NCHW", "NCHW", "NCHW"),
        **pads,
    )
    add(
        "conv_dw",
        "Conv2DBackpropFilterD",
        [x, g],
        [_filter_gradient(x, g, (3, 3), 2, 1)],
        ("NCHW", "NCHW", "NCHW"),
        **pads,
    )


def _pools(add, draw):
    x = draw(2, 6, 8, 8)
    both = ("NCHW", "NCHW")
    add(
        "max_pool",
        "MaxPool",
        [x],
        [_pool(x, 2, 2, np.max)],
        both,
        ksize=(1, 1, 2, 2),
        strides=(1, 1, 2, 2),
        padding="VALID",
    )
    add(
        "avg_pool",
        "AvgPool",
        [_nhwc(x)],
        [_nhwc(_pool(x, 3, 1, np.mean))],
        ("NHWC", "NHWC"),
        ksize=(1, 3, 3, 1),
        strides=(1, 1, 1, 1),
        padding="VALID",
    )
    wide = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
    add(
        "pooling_up",
        "Pooling",
        [x],
        [_pool(wide, 3, 2, np.max)],
        both,
        window=(3, 3),
        stride=(2, 2),
        pad=(0, 0, 0, 0),
        mode=0,
        ceil_mode=0,
    )
    add(
        "pooling_all",
        "Pooling",
        [x],
        [x.mean((2, 3), keepdims=True)],
        both,
        mode=1,
        global_pooling=True,
    )
    g = draw(2, 6, 4, 4)
    made = _pool(x, 2, 2, np.max)
    add(
        "max_pool_grad",
        "MaxPoolGrad",
        [x, made, g],
        [_max_gradient(x, g, 2, 2)],
        ("NCHW",) * 4,
        ksize=(1, 1, 2, 2),
        strides=(1, 1, 2, 2),
        padding="VALID",
    )
    add(
        "avg_pool_grad",
        "AvgPoolGradD",
        [g],
        [np.kron(g, np.full((2, 2), 0.25))],
        both,
        ksize=(1, 1, 2, 2),
        strides=(1, 1, 2, 2),
        padding="VALID",
    )


def _matrices(add, draw):
    a, b, c = draw(7, 33), draw(33, 18), draw(18)
    add("matmul", "MatMulV2", [a, b, c], [a @ b + c], transpose_x1=False, transpose_x2=False)
    add("matmul_t", "MatMulV2", [a.T, b.T], [a @ b], transpose_x1=True, transpose_x2=True)
    add("matmul_untold", "MatMul", [a, b.T], [a @ b])
    p, q = draw(2, 3, 5, 8), draw(2, 3, 4, 8)
    add("batch", "BatchMatMul", [p, q], [p @ q.transpose(0, 1, 3, 2)], adj_x1=False, adj_x2=True)
    x, w = draw(2, 6, 3, 3), draw(10, 6, 3, 3)
    full = x.reshape(2, -1) @ w.reshape(10, -1).T
    add(
        "full",
        "FullyConnection",
        [x, w, draw(10) * 0],
        [full.reshape(2, 10, 1, 1)],
        ("NCHW", "NCHW", "", "NCHW"),
        num_output=10,
        transpose=False,
        axis=1,
    )


def _elements(add, draw):
    x, y = draw(4, 19), draw(4, 19)
    add("add", "Add", [x, y], [x + y])
    add("mul_one", "Mul", [x, y[:, :1]], [x * y[:, :1]])
    add("div", "RealDiv", [x, 2 + np.abs(y)], [x / (2 + np.abs(y))])
    add("add_n", "AddN", [x, y, x], [x + y + x])
    add("leaky", "LeakyRelu", [x], [np.where(x > 0, x, 0.1 * x)], negative_slope=0.1)
    add("tanh", "Tanh", [x], [np.tanh(x)])
    add("eltwise", "Eltwise", [x, y], [2 * x - y], mode=1, coeff=(2.0, -1.0), N=2)
    add("relu_grad", "ReluGrad", [x, y], [x * (y > 0)])
    add("sigmoid_grad", "SigmoidGrad", [_sigmoid(x), y], [_sigmoid(x) * (1 - _sigmoid(x)) * y])
    add("softmax", "SoftmaxV2", [x], [_softmax(x)], axes=(-1,))
    add(
        "softmax_grad",
        "SoftmaxGrad",
        [_softmax(x), y],
        [(y - (_softmax(x) * y).sum(-1, keepdims=True)) * _softmax(x)],
    )
    add("mean", "ReduceMeanD", [x], [x.mean(1)], axes=(1,), keep_dims=False)
    add("greater", "Greater", [x, y], [x > y])
    add("select", "Select", [x > y, x, y], [np.where(x > y, x, y)])
    add("swish", "Swish", [x], [x * _sigmoid(x)], scale=1.0)
    add("l2_loss", "L2Loss", [x], [np.array((x**2).sum() / 2)])
    add("bias_grad", "BiasAddGrad", [x], [x.sum(0)])
    labels = np.array([3, 0, 18, 7], np.int32)
    losses = -np.log(_softmax(x))[np.arange(4), labels]
    add(
        "losses",
        "SparseSoftmaxCrossEntropyWithLogits",
        [x, labels],
        [losses, _softmax(x) - np.eye(19)[labels]],
    )


def _places(add, draw):
    x = draw(4, 6, 5)
    add("concat", "ConcatD", [x, x + 1], [np.concatenate([x, x + 1], 1)], concat_dim=1)
    add("split", "SplitVD", [x], [x[:, :2], x[:, 2:]], split_dim=1, size_splits=(2, 4), num_split=2)
    add("pack", "Pack", [x, -x], [np.stack([x, -x], 1)], axis=1, N=2)
    add("turn", "TransposeD", [x], [x.transpose(2, 0, 1)], perm=(2, 0, 1))
    add(
        "slice",
        "StridedSliceD",
        [x],
        [x[1:, ::2, 3]],
        begin=(1, 0, 3),
        end=(0, 0, 4),
        strides=(1, 2, 1),
        begin_mask=0,
        end_mask=3,
        shrink_axis_mask=4,
        ellipsis_mask=0,
        new_axis_mask=0,
    )
    ids = np.array([2, 0, 2, 1], np.int32)
    summed = np.zeros((3, 6, 5))
    np.add.at(summed, ids, x)
    add("segments", "UnsortedSegmentSumD", [x, ids], [summed], num_segments=3)
    add("gather", "GatherV2D", [x, ids], [x[ids]], axis=0)
    add(
        "pad", "PadD", [x], [np.pad(x, ((0, 0), (1, 2), (0, 3)))], paddings=((0, 0), (1, 2), (0, 3))
    )
    add("tile", "TileD", [x], [np.tile(x, (1, 2, 1))], multiples=(1, 2, 1))
    y = draw(2, 3, 4, 4)
    add(
        "larger",
        "ResizeNearestNeighborV2D",
        [y],
        [y.repeat(2, 2).repeat(2, 3)],
        ("NCHW", "NCHW"),
        size=(8, 8),
        align_corners=False,
    )
    add("trans", "TransData", [y], [_nhwc(y)], ("NCHW", "NHWC"))


def _norms(add, draw):
    x, g = draw(3, 6, 4, 4) + 1, draw(3, 6, 4, 4)
    scale, offset, count = draw(6), draw(6), 48
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    by = lambda value: value[:, None, None]  # noqa: E731
    normal = (x - by(mean)) / np.sqrt(by(var) + _EPS)
    sums = [x.sum((0, 2, 3)), (x**2).sum((0, 2, 3))]
    four = ("NCHW", "", "", "", "", "", "", "NCHW")
    add("bn_sums", "BNTrainingReduce", [x], sums, ("NCHW",))
    made = normal * by(scale) + by(offset)
    old = [draw(6), 1 + np.abs(draw(6))]
    held = [0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * var * count / (count - 1)]
    add(
        "bn_update",
        "BNTrainingUpdate",
        [x, *sums, scale, offset, *old],
        [made, *held, mean, var],
        four,
        factor=0.1,
        epsilon=_EPS,
    )
    add(
        "bn",
        "BNInfer",
        [x, scale, offset, mean, var],
        [made],
        ("NCHW", "", "", "", "", "NCHW"),
        epsilon=_EPS,
    )
    by_scale, by_offset = (g * normal).sum((0, 2, 3)), g.sum((0, 2, 3))
    add(
        "bn_scales",
        "BNTrainingUpdateGrad",
        [g, x, mean, var],
        [by_scale, by_offset],
        ("NCHW", "NCHW"),
        epsilon=_EPS,
    )
    back = g - by(by_offset) / count - normal * by(by_scale) / count
    back *= by(scale / np.sqrt(var + _EPS))
    add(
        "bn_grad",
        "BNTrainingReduceGrad",
        [g, x, by_scale, by_offset, scale, mean, var],
        [back],
        ("NCHW", "NCHW", *[""] * 5, "NCHW"),
        epsilon=_EPS,
    )
    t, gamma, beta = draw(5, 24), draw(24), draw(24)
    m, v = t.mean(-1, keepdims=True), t.var(-1, keepdims=True)
    layer = (t - m) / np.sqrt(v + _EPS) * gamma + beta
    add(
        "layer",
        "LayerNorm",
        [t, gamma, beta],
        [layer, m, v],
        begin_norm_axis=-1,
        begin_params_axis=-1,
        epsilon=_EPS,
    )


def _steps(add, draw):
    var, held, g = draw(30), np.abs(draw(30)), draw(30)
    rate, share = np.array(0.05), np.array(0.9)
    moved = held * share + g
    add("momentum", "ApplyMomentum", [var, held, rate, g, share], [var - rate * moved, moved])
    m, one = draw(30), np.array(1.0)
    now_m, now_v = 0.9 * m + 0.1 * g, 0.99 * held + 0.01 * g * g
    step = 0.05 * np.sqrt(1 - 0.98) / (1 - 0.81) * now_m / (np.sqrt(now_v) + 1e-3)
    values = [0.81, 0.98, 0.05, 0.9, 0.99, 1e-3]
    add(
        "adam",
        "ApplyAdamD",
        [var, m, held, *(one * each for each in values), g],
        [var - step, now_m, now_v],
    )


def _integers(add, draw):
    x = draw(4, 18) * 20
    add(
        "quant",
        "AscendQuant",
        [x],
        [np.clip(np.rint(x * 0.5 + 3), -128, 127).astype(np.int8)],
        scale=0.5,
        offset=3.0,
    )
    whole = np.round(draw(2, 4, 3, 3) * 1e5).astype(np.int32)
    scales = np.array([1e-4, 2e-4, 3e-4, 1e-3], np.float32)
    add(
        "dequant",
        "AscendDequant",
        [whole, scales.view(np.uint32).astype(np.uint64)],
        [np.maximum(whole * scales[:, None, None].astype(float), 0)],
        ("NCHW", "", "NCHW"),
        relu_flag=True,
    )


PARTS = (_convolutions, _pools, _matrices, _elements, _places, _norms, _steps, _integers)


@pytest.fixture(params=["float16", "float32"])
def dumped(request, tmp_path):
    """Every op of PARTS with its inputs and outputs, in blocks where the device has them."""
    kind = np.dtype(request.param)
    draws = np.random.default_rng(7)
    made = DeviceOps(tmp_path)

    def draw(*shape):
        return draws.normal(size=shape).astype(kind).astype(np.float64)

    def stored(value):
        value = np.asarray(value)
        return value.astype(kind) if value.dtype == np.float64 else value

    def add(name, op, inputs, outputs, layouts=(), **attrs):
        blocked = "NC1HWC0" if layouts else "FRACTAL_NZ" if "MatMul" in op else ""
        inputs = [stored(each) for each in inputs]
        made.add(
            name, op, inputs, [stored(each) for each in outputs], layouts, blocked=blocked, **attrs
        )

    for part in PARTS:
        part(add, draw)
    return made.operands()


def test_what_is_made_by_the_definition_is_right(dumped):
    found = verify(dumped)
    assert dict(found.not_covered) == {}
    assert [(each.op, each.port) for each in (*found.wrong, *found.suspects)] == []
    assert found.verdict is Verdict.CLEAN


def _one_channel(value):
    value[:, 0, ..., 1] += value.dtype.type(0.5)


def _upside_down(value):
    value[...] = value[::-1].copy()


def _a_per_cent(value):
    value *= value.dtype.type(1.02)


FAULTS = {
    "conv": _one_channel,
    "softmax": _upside_down,
    "matmul": _a_per_cent,
    "layer": _a_per_cent,
}


def test_what_no_definition_makes_is_wrong_and_nothing_else(dumped):
    spoiled(dumped, FAULTS)
    found = verify(dumped)
    assert {each.op for each in found.wrong} == set(FAULTS)
    assert found.suspects == ()
    assert found.verdict is Verdict.DIVERGED
