"""Convolutions and pooling on random shapes, against OpenCV."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

SIZES = st.integers(1, 9)
SMALL = st.integers(1, 3)
HOW = settings(max_examples=40, deadline=None)


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@HOW
@given(
    n=st.integers(1, 2), group=SMALL, ins=SMALL, outs=SMALL, h=SIZES, w=SIZES, kh=SMALL, kw=SMALL,
    sh=SMALL, sw=SMALL, ph=st.integers(0, 3), pw=st.integers(0, 3), dilation=SMALL,
    bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_convolution(nets, n, group, ins, outs, h, w, kh, kw, sh, sw, ph, pw, dilation, bias, seed):
    assume(h + 2 * ph >= dilation * (kh - 1) + 1)
    assume(w + 2 * pw >= dilation * (kw - 1) + 1)
    params = (
        f"convolution_param {{ num_output: {group * outs} kernel_h: {kh} kernel_w: {kw} "
        f"stride_h: {sh} stride_w: {sw} pad_h: {ph} pad_w: {pw} dilation: {dilation} "
        f"group: {group} bias_term: {str(bias).lower()} }}"
    )
    weights = [values(seed, group * outs, ins, kh, kw), values(seed, group * outs)][: 1 + bias]
    nets.agree("Convolution", params, values(seed, n, group * ins, h, w), weights=weights)


@HOW
@given(
    group=SMALL, ins=SMALL, outs=SMALL, h=SIZES, w=SIZES, k=st.integers(1, 4), s=SMALL,
    p=st.integers(0, 2), bias=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_deconvolution(nets, group, ins, outs, h, w, k, s, p, bias, seed):
    assume(s * (min(h, w) - 1) + k - 2 * p > 0)
    assume(p < k)  # else OpenCV asks for exabytes
    params = (
        f"convolution_param {{ num_output: {group * outs} kernel_size: {k} stride: {s} pad: {p} "
        f"group: {group} bias_term: {str(bias).lower()} }}"
    )
    weights = [values(seed, group * ins, outs, k, k), values(seed, group * outs)][: 1 + bias]
    nets.agree("Deconvolution", params, values(seed, 2, group * ins, h, w), weights=weights)


@HOW
@given(
    pool=st.sampled_from(["MAX", "AVE"]), h=SIZES, w=SIZES, k=st.integers(1, 4),
    s=st.integers(1, 4), p=st.integers(0, 3), seed=st.integers(0, 99),
)  # fmt: skip
@example(pool="AVE", h=7, w=7, k=3, s=2, p=1, seed=0)
@example(pool="MAX", h=1, w=1, k=1, s=1, p=0, seed=0)
@example(pool="AVE", h=2, w=5, k=4, s=3, p=3, seed=0)
def test_pooling(nets, pool, h, w, k, s, p, seed):
    assume(p < k)
    assume(min(h, w) + 2 * p >= k)
    x = np.round(values(seed, 2, 2, h, w), 1)  # with ties
    params = f"pooling_param {{ pool: {pool} kernel_size: {k} stride: {s} pad: {p} }}"
    ours = nets.one("Pooling", params, x)
    wanted = by_definition(pool, x, k, s, p)
    assert ours.shape == wanted.shape
    assert np.allclose(ours, wanted, 1e-5, 1e-6, equal_nan=True)


def by_definition(pool, x, k, s, p):
    """Caffe's own loop over windows."""

    def count(size):
        tops = -(-(size + 2 * p - k) // s) + 1
        return tops - 1 if p and (tops - 1) * s >= size + p else tops

    h, w = x.shape[2:]
    made = np.zeros((*x.shape[:2], count(h), count(w)), np.float32)
    for i, j in np.ndindex(*made.shape[2:]):
        top, left = i * s - p, j * s - p
        below, right = min(top + k, h + p), min(left + k, w + p)
        size = (below - top) * (right - left)
        part = x[:, :, max(top, 0) : min(below, h), max(left, 0) : min(right, w)]
        if pool == "AVE":
            made[:, :, i, j] = part.sum((2, 3)) / (size or np.nan)  # 0/0 of a window outside
        else:
            made[:, :, i, j] = part.max((2, 3), initial=np.finfo(np.float32).min)
    return made


@pytest.mark.parametrize("pool", ["MAX", "AVE"])
@pytest.mark.parametrize(("size", "params"), [
    (7, "kernel_size: 3 stride: 2"), (8, "kernel_size: 3 stride: 2"),
    (5, "kernel_size: 2 stride: 2"), (6, "global_pooling: true"), (1, "kernel_size: 1"),
    (9, "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 2"),
])  # fmt: skip
def test_pooling_as_opencv_has_it(nets, rng, pool, size, params):
    nets.agree("Pooling", f"pooling_param {{ pool: {pool} {params} }}", rng(2, 3, size, size))


def test_of_equal_elements_pooling_tells_the_first_place(nets):
    x = np.zeros((1, 2, 4, 4), np.float32)
    x[0, 1, 3, 2] = 1
    text = (
        'layer { name: "y" type: "Pooling" bottom: "x" top: "y" top: "places" '
        "pooling_param { kernel_size: 2 stride: 2 } }"
    )
    found = nets.run(text, {"x": x})["places"]
    assert found.ravel().tolist() == [0, 2, 8, 10, 0, 2, 8, 14]


def test_stochastic_pooling_weighs_each_element_by_its_share(nets):
    x = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    made = nets.one("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }", x)
    window = np.array([1, 2, 5, 6])
    assert made[0, 0, 0, 0] == pytest.approx((window**2).sum() / window.sum())


@pytest.mark.parametrize("kind", ["ConvolutionDepthwise", "DepthwiseConvolution"])
def test_depthwise_is_a_convolution_of_as_many_groups(nets, rng, kind):
    weights = [rng(4, 1, 3, 3), rng(4)]
    params = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 %s }"
    x = rng(2, 4, 6, 5)
    ours = nets.one(kind, params % "", x, weights=weights)
    assert (ours == nets.one("Convolution", params % "group: 4", x, weights=weights)).all()


def test_convolution_of_one_and_of_three_axes_and_along_another(nets, rng):
    x, weight = rng(2, 3, 9), rng(4, 3, 3)
    params = "convolution_param { num_output: 4 kernel_size: 3 bias_term: false }"
    ours = nets.one("Convolution", params, x, weights=[weight])
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 2)
    assert np.allclose(ours, np.einsum("nctk,ock->not", windows, weight), atol=1e-5)
    turned = params.replace("}", "axis: 2 }")
    deep = nets.one("Convolution", turned, x[None], weights=[weight])
    assert np.array_equal(deep[0], ours)
    volume = nets.one("Convolution", params, rng(1, 3, 4, 5, 6), weights=[rng(4, 3, 3, 3, 3)])
    assert volume.shape == (1, 4, 2, 3, 4)


def test_several_bottoms_share_the_weights(nets, rng):
    text = (
        'layer { name: "y" type: "Convolution" bottom: "a" bottom: "b" top: "c" top: "d" '
        "convolution_param { num_output: 2 kernel_size: 2 } }"
    )
    inputs = {"a": rng(1, 3, 5, 5), "b": rng(2, 3, 5, 5)}
    weights = [rng(2, 3, 2, 2), rng(2)]
    made = nets.run(text, inputs, {"y": weights})
    params = "convolution_param { num_output: 2 kernel_size: 2 }"
    assert np.array_equal(made["d"], nets.one("Convolution", params, inputs["b"], weights=weights))


def test_im2col_lists_the_cells_of_each_window(nets, rng):
    x = rng(2, 3, 5, 4)
    made = nets.one("Im2col", "convolution_param { kernel_size: 2 stride: 1 pad: 1 }", x)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), (2, 3))
    wanted = windows.transpose(0, 1, 4, 5, 2, 3).reshape(2, 12, 6, 5)
    assert np.array_equal(made, wanted)


@pytest.mark.parametrize("height", [1, 2, 3])
def test_spatial_pyramid_joins_poolings(nets, rng, height):
    x = rng(2, 3, 8, 8)
    made = nets.one("SPP", f"spp_param {{ pyramid_height: {height} pool: MAX }}", x)
    levels = [
        x.reshape(2, 3, bins, 8 // bins, bins, 8 // bins).max((3, 5)).reshape(2, -1)
        for bins in (1, 2, 4)[:height]
    ]
    wanted = np.concatenate(levels, 1)
    assert np.array_equal(made.reshape(2, -1), wanted)
    assert made.ndim == (4 if height == 1 else 2)
