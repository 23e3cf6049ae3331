"""Layers without windows, against OpenCV; where it has no such layer, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

SHAPES = [(2, 3, 4, 5), (1, 1, 1, 1), (2, 6, 3, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "params"), [
    ("ReLU", ""), ("ReLU", "relu_param { negative_slope: 0.1 }"), ("Sigmoid", ""), ("TanH", ""),
    ("ELU", ""), ("AbsVal", ""), ("BNLL", ""), ("Dropout", ""), ("Split", ""),
    ("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"),
    ("Power", "power_param { scale: 3 }"), ("Power", "power_param { shift: -1 }"),
    ("Exp", ""), ("Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }"),
    ("Softmax", ""), ("Softmax", "softmax_param { axis: 2 }"),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }"),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"),
    ("Flatten", ""), ("Flatten", "flatten_param { axis: 2 }"),
    ("Flatten", "flatten_param { axis: 1 end_axis: 2 }"),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"),
    ("Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
])  # fmt: skip
def test_one_bottom(nets, rng, shape, kind, params):
    nets.agree(kind, params, rng(*shape))


@pytest.mark.parametrize("shape", [*SHAPES, (3, 4)])
def test_layers_with_weights_per_channel(nets, rng, shape):
    channels, x = shape[1], rng(*shape)
    slopes, offsets = rng(channels), rng(channels, seed=1)
    assert nets.agree("PReLU", "", x, weights=[slopes]).shape == shape
    nets.agree("PReLU", "prelu_param { channel_shared: true }", x, weights=[slopes[:1]])
    nets.agree("Scale", "scale_param { bias_term: true }", x, weights=[slopes, offsets])
    nets.agree("Scale", "", x, weights=[slopes])
    numbers = [slopes, np.abs(offsets) + 0.1, np.array([2.0])]
    nets.agree("BatchNorm", "batch_norm_param { eps: 1e-3 }", x, weights=numbers)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4, 5), (1, 1, 1, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_inner_product(nets, rng, shape, bias):
    inputs = int(np.prod(shape[1:]))
    params = f"inner_product_param {{ num_output: 6 bias_term: {str(bias).lower()} }}"
    nets.agree("InnerProduct", params, rng(*shape), weights=[rng(6, inputs), rng(6)][: 1 + bias])


def test_inner_product_transposed_and_along_an_inner_axis(nets, rng):
    x, weight, bias = rng(2, 3, 4), rng(4, 5), rng(5)
    params = "inner_product_param { num_output: 5 axis: 2 %s }"
    ours = nets.one("InnerProduct", params % "transpose: true", x, weights=[weight, bias])
    assert np.allclose(ours, x @ weight + bias, atol=1e-5)
    again = nets.one("InnerProduct", params % "", x, weights=[weight.T.copy(), bias])
    assert np.allclose(again, ours, atol=1e-6)


def test_old_weights_of_four_axes(nets, rng):
    x, weight, bias = rng(2, 4), rng(1, 1, 5, 4), rng(1, 1, 1, 5)
    ours = nets.one("InnerProduct", "inner_product_param { num_output: 5 }", x,
                    weights=[weight, bias])  # fmt: skip
    assert np.allclose(ours, x @ weight[0, 0].T + bias[0, 0, 0], atol=1e-5)


@pytest.mark.parametrize("params", ["operation: PROD", "operation: SUM", "operation: MAX",
    "operation: SUM coeff: 0.5 coeff: -1", "operation: 1"])  # fmt: skip
def test_eltwise(nets, rng, params):
    nets.agree("Eltwise", f"eltwise_param {{ {params} }}", rng(2, 3, 4), rng(2, 3, 4, seed=1))


def test_concat_and_slice(nets, rng):
    nets.agree("Concat", "", rng(2, 3, 4), rng(2, 1, 4))
    nets.agree("Concat", "concat_param { axis: -1 }", rng(2, 3, 4), rng(2, 3, 1))
    text = (
        'layer { name: "s" type: "Slice" bottom: "x" top: "a" top: "b" top: "c" '
        "slice_param { slice_point: 1 slice_point: 4 } }"
    )
    x = rng(2, 6, 3)
    made = nets.run(text, {"x": x})
    assert np.array_equal(np.concatenate([made[name] for name in "abc"], 1), x)
    assert [made[name].shape[1] for name in "abc"] == [1, 3, 2]


def test_crop(nets, rng):
    big, small = rng(2, 3, 8, 9), rng(2, 3, 4, 5)
    ours = nets.agree("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", big, small)
    assert np.array_equal(ours, big[:, :, 1:5, 2:7])


def test_embed_and_tile(nets, rng):
    table, bias, x = rng(7, 3), rng(3), np.array([[0, 6], [3, 3]], np.float32)
    made = nets.one("Embed", "embed_param { num_output: 3 input_dim: 7 }", x, weights=[table, bias])
    assert np.array_equal(made, table[x.astype(int)] + bias)
    tiled = nets.one("Tile", "tile_param { axis: 1 tiles: 3 }", rng(2, 3, 2))
    assert np.array_equal(tiled, np.tile(rng(2, 3, 2), (1, 3, 1)))


@pytest.mark.parametrize("axis", ["", "axis: 1"])
@pytest.mark.parametrize("top", [1, 3])
@pytest.mark.parametrize("values", [False, True])
def test_of_equal_values_argmax_takes_the_last(nets, rng, axis, top, values):
    x = np.round(rng(3, 6, 2), 0)
    params = f"argmax_param {{ {axis} top_k: {top} out_max_val: {str(values).lower()} }}"
    made = nets.one("ArgMax", params, x)
    rows = x.reshape(3, -1) if not axis else x.transpose(0, 2, 1).reshape(6, 6)
    order = [sorted(range(len(row)), key=lambda at: (row[at], at))[: -top - 1 : -1] for row in rows]
    places = np.array(order, np.float32)
    chosen = np.take_along_axis(rows, np.array(order), 1)
    if axis:
        wanted = (chosen if values else places).reshape(3, 2, top).transpose(0, 2, 1)
    else:
        wanted = np.stack([places, chosen], 1) if values else places[:, None]
    assert np.array_equal(made, wanted)


@pytest.mark.parametrize(("kind", "wanted"), [
    ("SUM", lambda x: x.sum(1)), ("ASUM", lambda x: abs(x).sum(1)),
    ("SUMSQ", lambda x: (x * x).sum(1)), ("MEAN", lambda x: x.mean(1)),
])  # fmt: skip
def test_reduction(nets, rng, kind, wanted):
    params = f"reduction_param {{ operation: {kind} axis: 1 coeff: 2 }}"
    made = nets.one("Reduction", params, rng(3, 4, 5))
    assert np.allclose(made, 2 * wanted(rng(3, 4, 5).reshape(3, 20)), atol=1e-4)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("variance", [False, True])
def test_mvn(nets, rng, across, variance):
    said = f"across_channels: {across} normalize_variance: {variance}".lower()
    x = rng(2, 3, 4, 5)
    made = nets.one("MVN", f"mvn_param {{ {said} eps: 0.01 }}", x)
    axes = (1, 2, 3) if across else (2, 3)
    wanted = x - x.mean(axes, keepdims=True)
    if variance:
        wanted /= np.sqrt((wanted**2).mean(axes, keepdims=True)) + 0.01
    assert np.allclose(made, wanted, atol=1e-5)


@pytest.mark.parametrize("spatial", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_normalize(nets, rng, spatial, shared):
    said = f"across_spatial: {spatial} channel_shared: {shared}".lower()
    x, scale = rng(2, 3, 4, 5), rng(1 if shared else 3)
    made = nets.one("Normalize", f"norm_param {{ {said} }}", x, weights=[scale])
    norm = np.sqrt((x**2).sum((1, 2, 3) if spatial else 1, keepdims=True) + 1e-10)
    assert np.allclose(made, x / norm * scale.reshape(1, -1, 1, 1), atol=1e-5)


def test_lrn_from_another_constant(nets, rng):  # which OpenCV does not read
    x = rng(1, 2, 3, 3)
    made = nets.one("LRN", "lrn_param { local_size: 1 alpha: 0.5 k: 2 }", x)
    assert np.allclose(made, x / (2 + x * x / 2) ** 0.75, atol=1e-6)


@pytest.mark.parametrize(("kind", "params", "wanted"), [
    ("Log", "log_param { base: 2 scale: 1 shift: 5 }", lambda x: np.log2(x + 5)),
    ("Threshold", "threshold_param { threshold: 0.5 }", lambda x: (x > 0.5).astype("f4")),
    ("Clip", "clip_param { min: -0.5 max: 0.25 }", lambda x: x.clip(-0.5, 0.25)),
    ("Swish", "swish_param { beta: 2 }", lambda x: x / (1 + np.exp(-2 * x))),
    ("ReLU6", "", lambda x: x.clip(0, 6)),
    ("Power", "power_param { scale: 0 shift: 3 power: 2 }", lambda x: np.full_like(x, 9)),
    ("Dropout", "dropout_param { dropout_ratio: 0.25 scale_train: false }", lambda x: x * 0.75),
    ("ShuffleChannel", "shuffle_channel_param { group: 2 }",
     lambda x: x.reshape(2, 2, 3, 5).transpose(0, 2, 1, 3).reshape(2, 6, 5)),
    ("Reshape", "reshape_param { shape { dim: 2 dim: 3 } axis: 1 num_axes: 1 }",
     lambda x: x.reshape(2, 2, 3, 5)),
    ("Reshape", "reshape_param { shape { dim: -1 } axis: -3 }", lambda x: x.reshape(2, 30)),
])  # fmt: skip
def test_by_definition(nets, rng, kind, params, wanted):
    x = rng(2, 6, 5)
    assert np.allclose(nets.one(kind, params, x), wanted(x), atol=1e-5)


def test_scale_and_bias_by_a_second_bottom(nets, rng):
    x, by, add = rng(2, 3, 4, 5), rng(2, 3), rng(3, 4)
    made = nets.one("Scale", "scale_param { axis: 0 }", x, by)
    assert np.array_equal(made, x * by[:, :, None, None])
    made = nets.one("Bias", "bias_param { axis: 1 }", x, add)
    assert np.array_equal(made, x + add[:, :, None])
    made = nets.one("Scale", "scale_param { axis: 1 num_axes: 2 }", x, weights=[rng(3, 4)])
    assert np.array_equal(made, x * rng(3, 4)[:, :, None])
    made = nets.one("Axpy", "", rng(2, 3, 1, 1), x, rng(2, 3, 4, 5, seed=1))
    assert np.allclose(made, x * rng(2, 3, 1, 1) + rng(2, 3, 4, 5, seed=1), atol=1e-6)


def test_batch_norm_of_a_net_never_trained_and_with_statistics_of_the_batch(nets, rng):
    x, numbers = rng(4, 3, 5, 5), [rng(3), np.abs(rng(3)), np.array([0.0])]
    assert np.allclose(nets.one("BatchNorm", "", x, weights=numbers), x / np.sqrt(1e-5), rtol=1e-5)
    said = "batch_norm_param { use_global_stats: false eps: 0.1 }"
    made = nets.one("BatchNorm", said, x, weights=numbers)
    around = x - x.mean((0, 2, 3), keepdims=True)
    wanted = around / np.sqrt((around**2).mean((0, 2, 3), keepdims=True) + 0.1)
    assert np.allclose(made, wanted, atol=1e-5)


def test_rows_are_chosen_by_index_and_by_a_flag(nets, rng):
    x, index = rng(4, 3), np.array([3, 0, 0], np.float32)
    assert np.array_equal(nets.one("BatchReindex", "", x, index), x[[3, 0, 0]])
    flags = np.array([1, 0, 0, 1], np.float32)
    assert np.array_equal(nets.one("Filter", "", x, flags), x[[0, 3]])


def test_batch_norm_of_five_blobs(nets, rng):
    """OpenCV takes the factor of such nets for 1."""
    weights = [rng(3), np.abs(rng(3, seed=1)) + 1, np.ones(1, np.float32), rng(3, seed=2)]
    said = "batch_norm_param { scale_bias: true eps: 0.001 }"
    nets.agree("BatchNorm", said, rng(2, 3, 4, 5), weights=[*weights, rng(3, seed=3)])
