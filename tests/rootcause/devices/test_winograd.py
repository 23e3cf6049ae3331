"""Convolutions over transformed tiles are those of ONNX Runtime, but for their own rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from one_conv import run_conv

from divergraph.rootcause.devices.tiles.winograd import CANDIDATES, Tiles
from graphstore.model import InputRef, Op

RNG = np.random.default_rng(4)
Array = np.ndarray[Any, Any]
FORMS = {
    "padded": ((2, 8, 19, 14), (16, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "not padded": ((1, 8, 19, 14), (16, 8, 3, 3), {}),
    "depthwise": ((2, 8, 9, 14), (8, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 8}),
    "grouped": ((2, 8, 9, 14), (6, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "one axis": ((2, 4, 19), (6, 4, 3), {"pads": [2, 0]}),
    "same upper": ((2, 4, 19), (6, 4, 2), {"auto_pad": "SAME_UPPER"}),
    "same lower": ((2, 4, 19), (6, 4, 2), {"auto_pad": "SAME_LOWER"}),
    "rows": ((2, 4, 19, 8), (6, 4, 1, 3), {"pads": [0, 1, 0, 1]}),
    "two sizes": ((2, 4, 19, 8), (6, 4, 2, 3), {"pads": [1, 1, 0, 1]}),
    "three axes": ((1, 2, 7, 8, 9), (3, 2, 3, 3, 3), {"pads": [1] * 6}),
}


def given(x: tuple[int, ...], w: tuple[int, ...]) -> dict[str, Array]:
    sizes = {"x": x, "w": w, "b": w[:1]}
    return {name: RNG.standard_normal(size).astype(np.float32) for name, size in sizes.items()}


def conv(attrs: dict[str, Any], kind: str = "Conv", names: str = "xwb") -> Op:
    return Op("conv", "conv", kind, tuple(InputRef(name) for name in names), attrs=attrs)


def off(found: Array | None, right: Array) -> float:
    assert found is not None
    assert found.shape == right.shape
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))


@pytest.mark.parametrize("form", FORMS)
def test_a_convolution_over_tiles_is_the_same_but_for_rounding(form: str) -> None:
    x, w, attrs = FORMS[form]
    values = given(x, w)
    right = run_conv(values, attrs)
    assert off(Tiles(4, (0.0, 1.0, -1.0)).convolved(conv(attrs), values, right), right) < 1e-6
    for each in CANDIDATES:
        if max(w[2:]) < each.reach < 8:
            assert off(each.convolved(conv(attrs), values, right), right) < 3e-4


def test_a_convolution_of_tensorflow_has_its_channels_last() -> None:
    values = given((2, 8, 9, 14), (16, 8, 3, 3))
    del values["b"]
    right = np.moveaxis(run_conv(values, {"pads": [1, 1, 1, 1]}), 1, -1)
    turned = {"x": np.moveaxis(values["x"], 1, -1), "w": np.transpose(values["w"], (2, 3, 1, 0))}
    op = conv({"strides": [1, 1, 1, 1], "data_format": "NHWC"}, "Conv2D", "xw")
    assert off(CANDIDATES[1].convolved(op, turned, right), right) < 1e-5


def test_a_depthwise_one_of_tensorflow_has_its_multiplier_last() -> None:
    values = given((2, 4, 9, 14), (8, 1, 3, 3))
    del values["b"]
    right = np.moveaxis(run_conv(values, {"group": 4}), 1, -1)
    w = np.transpose(values["w"].reshape(4, 2, 3, 3), (2, 3, 0, 1))
    turned = {"x": np.moveaxis(values["x"], 1, -1), "w": w}
    op = conv({"strides": [1, 1, 1, 1]}, "DepthwiseConv2dNative", "xw")
    assert off(CANDIDATES[1].convolved(op, turned, right), right) < 1e-5


@pytest.mark.parametrize(
    "attrs", [{"strides": [2, 2]}, {"dilations": [2, 2]}], ids=["stride", "dilation"]
)
def test_strides_and_dilations_have_no_tiles(attrs: dict[str, Any]) -> None:
    values = given((1, 4, 12, 12), (4, 4, 3, 3))
    assert CANDIDATES[0].convolved(conv(attrs), values, run_conv(values, attrs)) is None


@pytest.mark.parametrize(
    ("x", "w", "kind"),
    [
        ((1, 4, 12, 12), (4, 4, 1, 1), "Conv"),  # nothing to save
        ((1, 4, 12, 12), (4, 4, 9, 9), "Conv"),  # larger than the tile
        ((1, 4, 12, 12), (4, 4, 3, 3), "ConvTranspose"),
    ],
)
def test_other_ops_and_kernels_have_none(x, w, kind) -> None:
    values = given(x, w)
    assert CANDIDATES[0].convolved(conv({}, kind), values, run_conv(values, {})) is None


def test_what_is_not_the_result_of_these_inputs_has_none() -> None:
    values = given((1, 4, 12, 12), (4, 4, 3, 3))
    assert CANDIDATES[1].convolved(conv({}), values, run_conv(values, {}) + 1) is None
    unknown = {"x": values["x"]}
    assert CANDIDATES[1].convolved(conv({}), unknown, run_conv(values, {})) is None


@pytest.mark.parametrize("tiles", CANDIDATES, ids=lambda each: f"{each.reach} of {each.points[3:]}")
@pytest.mark.parametrize("kernel", [2, 3])
def test_the_transforms_are_exact(tiles: Tiles, kernel: int) -> None:
    back, weights, values = tiles.transforms(kernel)
    w, x = RNG.standard_normal(kernel), RNG.standard_normal(tiles.reach)
    right = np.correlate(x, w, "valid")
    assert back @ ((weights @ w) * (values @ x)) == pytest.approx(right, rel=1e-9, abs=1e-9)
    assert math.isfinite(float(np.abs(values).max()))
