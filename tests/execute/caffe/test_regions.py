"""Layers of forks, against OpenCV or plain loops."""

from __future__ import annotations

from math import ceil, floor

import numpy as np
import pytest


@pytest.mark.parametrize(
    "params",
    [
        "min_size: 30 aspect_ratio: 2 clip: false variance: 0.1",
        "min_size: 30 max_size: 60 aspect_ratio: 2 aspect_ratio: 3 clip: false variance: 0.2",
        "min_size: 20 aspect_ratio: 2 flip: false clip: true "
        "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2",
        "min_size: 20 step: 16 offset: 0.3 clip: false variance: 0.1",
    ],
)
def test_prior_box(nets, rng, params):
    said = f"prior_box_param {{ {params} }}"
    nets.agree("PriorBox", said, rng(1, 2, 3, 4), rng(1, 3, 60, 80))


def test_roi_pooling(nets, rng):
    regions = np.array([[0, 0, 0, 7, 5], [0, 2, 1, 4, 4], [0, 6, 6, 9, 9]], np.float32)
    said = "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }"
    made = nets.one("ROIPooling", said, rng(1, 3, 6, 7), regions)
    assert made.shape == (3, 3, 2, 3)
    assert made[0, :, 0, 0] == pytest.approx(rng(1, 3, 6, 7)[0, :, 0:2, 0:2].max((1, 2)))


def test_position_sensitive_pooling(nets, rng):
    x = rng(2, 8, 6, 7)
    regions = np.array([[0, 0, 0, 7, 5], [1, 2, 1, 9, 4], [1, 20, 20, 22, 22]], np.float32)
    said = "psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.5 }"
    made = nets.one("PSROIPooling", said, x, regions)
    wanted = np.zeros((3, 2, 2, 2))
    for at, (image, *corners) in enumerate(regions):
        x0, y0, x1, y1 = corners
        left, top = floor(x0 + 0.5) * 0.5, floor(y0 + 0.5) * 0.5
        width = max((floor(x1 + 0.5) + 1) * 0.5 - left, 0.1) / 2
        height = max((floor(y1 + 0.5) + 1) * 0.5 - top, 0.1) / 2
        for c, i, j in np.ndindex(2, 2, 2):
            rows = slice(floor(i * height + top), ceil((i + 1) * height + top))
            columns = slice(floor(j * width + left), ceil((j + 1) * width + left))
            part = x[int(image), (c * 2 + i) * 2 + j, rows, columns]
            wanted[at, c, i, j] = part.mean() if part.size else 0
    assert np.allclose(made, wanted, atol=1e-5)


def test_regions_are_pooled_as_opencv_does(nets, rng):
    x = rng(1, 8, 6, 7)
    regions = np.array([[0, 0, 0, 7, 5], [0, 2, 1, 9, 4], [0, 6, 6, 11, 11]], np.float32)
    said = "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.5 }"
    nets.agree("ROIPooling", said, x, regions)
    said = "psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.5 }"
    nets.agree("PSROIPooling", said, x, regions)


def test_reorg_in_darknets_order(nets, rng):
    x, s = rng(1, 8, 4, 6), 2
    _, c, h, w = x.shape
    flat, wanted = x.ravel(), np.zeros(x.size, np.float32)
    for k, j, i in np.ndindex(c, h, w):
        fewer, offset = k % (c // s**2), k // (c // s**2)
        row, column = j * s + offset // s, i * s + offset % s
        wanted[i + w * (j + h * k)] = flat[column + w * s * (row + h * s * fewer)]
    made = nets.one("Reorg", "reorg_param { stride: 2 }", x)
    assert np.array_equal(made, wanted.reshape(1, 32, 2, 3))


def test_reorg_puts_blocks_back_in_darknets_order(nets, rng):
    x, s = rng(2, 8, 3, 2), 2
    n, c, h, w = x.shape
    wanted = np.zeros((n, c // s**2, h * s, w * s), np.float32)
    for k, j, i in np.ndindex(c, h, w):
        fewer, offset = k % (c // s**2), k // (c // s**2)
        wanted[:, fewer, j * s + offset // s, i * s + offset % s] = x[:, k, j, i]
    made = nets.one("Reorg", "reorg_param { stride: 2 reverse: true }", x)
    assert np.array_equal(made, wanted)


def test_upsample_repeats_and_interp_walks_between_corners(nets, rng):
    x = rng(1, 2, 3, 4)
    made = nets.one("Upsample", "upsample_param { scale: 2 }", x)
    assert np.array_equal(made, x.repeat(2, 2).repeat(2, 3))
    made = nets.one("Interp", "interp_param { height: 5 width: 7 }", x)
    assert np.array_equal(made[:, :, ::2, ::2], x)
    assert np.allclose(made[:, :, 1, 0], (x[:, :, 0, 0] + x[:, :, 1, 0]) / 2, atol=1e-6)
    again = nets.one("Interp", "interp_param { zoom_factor: 2 }", x)
    assert np.array_equal(again, made)


def test_dummy_data_is_filled_here_if_nothing_is_drawn(nets, rng):
    layers = """
    layer { name: "d" type: "DummyData" top: "half" top: "one" dummy_data_param {
      shape { dim: 2 dim: 3 } data_filler { value: 0.5 } data_filler { value: 1 } } }
    layer { name: "n" type: "DummyData" top: "none" dummy_data_param { shape { dim: 2 dim: 3 } } }
    layer { name: "y" type: "Eltwise" bottom: "x" bottom: "half" bottom: "none" top: "y" }
    """
    x = rng(2, 3)
    made = nets.run(layers, {"x": x})
    assert np.array_equal(made["y"], x + np.float32(0.5))
    assert np.array_equal(made["one"], np.ones((2, 3)))
    drawn = layers.replace("value: 0.5", 'type: "gaussian"')
    made = nets.run(drawn, {"x": x, "half": x, "one": x})
    assert np.array_equal(made["y"], x + x)


@pytest.mark.parametrize(
    ("kind", "settings", "shape"),
    [
        ("Region", "region_param { coords: 4 classes: 3 num: 2 }", (2, 16, 3, 2)),
        ("RegionYolo", "region_yolo_param { coords: 4 classes: 3 num: 2 }", (2, 96)),
        (
            *("RegionYolo", "region_yolo_param { coords: 4 classes: 3 do_softmax: false }"),
            (2, 16, 3, 2),
        ),
    ],
)
def test_numbers_of_boxes_as_in_darknet(nets, rng, kind, settings, shape):
    x = rng(2, 16, 3, 2)
    made = nets.one(kind, settings, x)
    assert made.shape == shape
    boxes, wanted = x.reshape(2, 2, 8, 3, 2), np.empty((2, 2, 8, 3, 2))
    wanted[:, :, 2:4] = boxes[:, :, 2:4]
    for at in (0, 1, 4):
        wanted[:, :, at] = 1 / (1 + np.exp(-boxes[:, :, at]))
    scores = boxes[:, :, 5:]
    if "false" in settings:
        wanted[:, :, 5:] = 1 / (1 + np.exp(-scores))
    else:
        wanted[:, :, 5:] = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    assert made == pytest.approx(wanted.reshape(shape), abs=1e-6)


def test_channels_that_are_no_boxes_are_told(nets, rng):
    with pytest.raises(AssertionError, match=r"has 15 channels: no boxes of 4 \+ 1 \+ 3"):
        nets.one("Region", "region_param { classes: 3 }", rng(1, 15, 3, 2))
