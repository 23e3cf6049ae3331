"""Convolutions and pooling, and their gradients, window by window."""

from __future__ import annotations

import numpy as np

FOUR = ("NCHW", "NCHW", "", "NCHW")
THREE = ("NCHW", "NCHW", "NCHW")


def convolved(x, w, strides, pads, groups=1, dilation=1):
    """NCHW by OIHW; pads are top, bottom, left, right."""
    top, bottom, left, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = ((size - 1) * dilation + 1 for size in w.shape[2:])
    seen = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1], ::dilation, ::dilation]
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


def _same_means(x, k):
    """Averages over windows of stride 1 that see only what is within the input."""
    before, after = (k - 1) // 2, k // 2
    ends = ((0, 0), (0, 0), (before, after), (before, after))
    sums = _pool(np.pad(x, ends), k, 1, np.sum)
    return sums / _pool(np.pad(np.ones_like(x), ends), k, 1, np.sum)


def nhwc(x):
    return x.transpose(0, 2, 3, 1)


def convolutions(add, draw):
    x, w, b = draw(2, 6, 9, 9), draw.held(draw(20, 6, 3, 3) / 4), draw(20)
    y = convolved(x, w, (2, 2), (1, 1, 1, 1)) + b[:, None, None]
    pads = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    add("conv", "Conv2D", [x, w, b], [y], FOUR, **pads)
    add("convolution", "Convolution", [x, w, b], [y], FOUR, **pads)
    add(
        *("conv_nhwc", "Conv2D", [nhwc(x), w.transpose(2, 3, 1, 0), b], [nhwc(y)]),
        ("NHWC", "HWCN", "", "NHWC"),
        strides=(1, 2, 2, 1),
        pads=(1, 1, 1, 1),
    )
    add(
        *("conv_dilated", "Conv2D", [x, w], [convolved(x, w, (1, 1), (2, 2, 2, 2), dilation=2)]),
        THREE,
        strides=(1, 1, 1, 1),
        pads=(2, 2, 2, 2),
        dilations=(1, 1, 2, 2),
    )
    originals = {"originals": ("conv", "bn_conv", "conv_relu"), "fusion_scope": 7}
    add("conv_relu", "Conv2D", [x, w, b], [np.maximum(y, 0)], FOUR, **originals)
    originals = {"originals": ("a", "res2", "b"), "fusion_scope": 8}
    add("conv_fused_of_two", "Conv2D", [x, w, b], [np.maximum(y, 0)], FOUR, **originals)
    v = draw.held(draw(20, 3, 3, 3) / 4)
    plain = {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0)}
    two = [convolved(x, v, (1, 1), (0, 0, 0, 0), 2)]
    add("conv_groups", "Conv2D", [x, v], two, THREE, groups=2, **plain)
    d = draw(3, 3, 6, 1)
    deep = convolved(x, d.transpose(2, 3, 0, 1), (1, 1), (1, 1, 1, 1), 6)
    for op in ("DepthwiseConv2D", "DepthwiseConv2DD"):
        around = {"strides": (1, 1, 1, 1), "pads": (1, 1, 1, 1)}
        add(op, op, [x, d], [deep], ("NCHW", "HWCN", "NCHW"), **around)


def convolution_gradients(add, draw):
    x, w, g = draw(2, 6, 9, 9), draw.held(draw(20, 6, 3, 3) / 4), draw(2, 20, 5, 5)
    pads = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    back, sizes = _input_gradient(g, w, x.shape, 2, 1), np.array(x.shape, np.int32)
    add("dx_d", "Conv2DBackpropInputD", [w, g], [back], THREE, **pads)
    add("dx", "Conv2DBackpropInput", [sizes, w, g], [back], ("", *THREE), **pads)
    c = draw(6)
    made = [back + c[:, None, None]]
    add("transposed", "Conv2DTransposeD", [g, w, c], made, FOUR, **pads)
    by_filter, shape = _filter_gradient(x, g, (3, 3), 2, 1), np.array(w.shape, np.int32)
    add("dw_d", "Conv2DBackpropFilterD", [x, g], [by_filter], THREE, **pads)
    add("dw", "Conv2DBackpropFilter", [x, shape, g], [by_filter], ("NCHW", "", *THREE[1:]), **pads)


def depthwise_gradients(add, draw):
    """Channel by channel, each with two filters of its own."""
    x, d, g = draw(2, 6, 9, 9), draw(3, 3, 6, 2), draw(2, 12, 5, 5)
    parts = [(slice(c, c + 1), slice(2 * c, 2 * c + 2)) for c in range(6)]
    oihw = d.transpose(2, 3, 0, 1)[:, :, None]
    shape = (2, 1, 9, 9)
    back = [_input_gradient(g[:, out], oihw[c], shape, 2, 1) for c, (_, out) in enumerate(parts)]
    by_filter = [_filter_gradient(x[:, one], g[:, out], (3, 3), 2, 1)[:, 0] for one, out in parts]
    dx, dw = np.concatenate(back, 1), np.stack(by_filter).transpose(2, 3, 0, 1)
    pads = {"strides": (1, 1, 2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    sizes, of = np.array(x.shape, np.int32), np.array(d.shape, np.int32)
    filtered = ("HWCN", "NCHW", "NCHW")
    add("deep_dx_d", "DepthwiseConv2DBackpropInputD", [d, g], [dx], filtered, **pads)
    add("deep_dx", "DepthwiseConv2DBackpropInput", [sizes, d, g], [dx], ("", *filtered), **pads)
    seen = ("NCHW", "NCHW", "HWCN")
    add("deep_dw_d", "DepthwiseConv2DBackpropFilterD", [x, g], [dw], seen, **pads)
    seen = ("NCHW", "", "NCHW", "HWCN")
    add("deep_dw", "DepthwiseConv2DBackpropFilter", [x, of, g], [dw], seen, **pads)


def pools(add, draw):
    x, both = draw(2, 6, 8, 8), ("NCHW", "NCHW")
    twos = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2)}
    largest = [_pool(x, 2, 2, np.max)]
    add("max_pool", "MaxPool", [x], largest, both, padding="VALID", **twos)
    add("max_pool_3", "MaxPoolV3", [x], largest, both, padding_mode="VALID", **twos)
    sizes = [np.array(twos[name], np.int32) for name in ("ksize", "strides")]
    add("max_pool_2", "MaxPoolV2", [x, *sizes], largest, ("NCHW", "", "", "NCHW"), padding="VALID")
    add("means", "AvgPool", [nhwc(x)], [nhwc(_pool(x, 3, 1, np.mean))], ("NHWC", "NHWC"), **_threes)
    same = {"ksize": (1, 1, 3, 3), "strides": (1, 1, 1, 1)}
    add("means_same", "AvgPool", [x], [_same_means(x, 3)], both, padding="SAME", **same)
    ends = {"padding_mode": "CALCULATED", "pads": (1, 1, 1, 1), "exclusive": False, **same}
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    add("means_2", "AvgPoolV2", [x], [_pool(wide, 3, 1, np.mean)], both, **ends)
    wide = np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=-np.inf)
    caffe = {"window": (3, 3), "stride": (2, 2), "pad": (0, 0, 0, 0)}
    up = [_pool(wide, 3, 2, np.max)]
    add("pooling_up", "Pooling", [x], up, both, mode=0, ceil_mode=0, **caffe)
    whole = [x.mean((2, 3), keepdims=True)]
    add("pooling_all", "Pooling", [x], whole, both, mode=1, global_pooling=True)


_threes = {"ksize": (1, 3, 3, 1), "strides": (1, 1, 1, 1), "padding": "VALID"}


def pool_gradients(add, draw):
    x, g, both = draw(2, 6, 8, 8), draw(2, 6, 4, 4), ("NCHW", "NCHW")
    twos = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "padding": "VALID"}
    largest = _pool(x, 2, 2, np.max)
    add("max_back", "MaxPoolGrad", [x, largest, g], [_max_gradient(x, g, 2, 2)], THREE * 2, **twos)
    back = [np.kron(g, np.full((2, 2), 0.25))]
    add("means_back_d", "AvgPoolGradD", [g], back, both, **twos)
    add("means_back", "AvgPoolGrad", [np.array(x.shape, np.int32), g], back, ("", *both), **twos)
    pyramid = draw(1, 2, 4, 4)
    tied = np.maximum(np.round(pyramid), 0)
    slid = {"ksize": (1, 1, 3, 3), "strides": (1, 1, 1, 1), "padding": "VALID"}
    h = draw(1, 2, 2, 2)
    made = [_max_gradient(tied, h, 3, 1)]
    add("max_ties", "MaxPoolGrad", [tied, _pool(tied, 3, 1, np.max), h], made, THREE * 2, **slid)


PARTS = (convolutions, convolution_gradients, depthwise_gradients, pools, pool_gradients)
