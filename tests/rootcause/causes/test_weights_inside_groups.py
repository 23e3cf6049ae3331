"""Which weight, which channel: told where a product is fused with what follows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from fused_outputs import Change, cause_of
from onnx import helper

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(3)
node = helper.make_node
GROUPS: Mapping[str, tuple[tuple[int, ...], dict[str, Array], Sequence[onnx.NodeProto]]] = {
    "Conv and Relu": (
        (1, 4, 12, 12),
        {
            "w": DRAW.standard_normal((12, 4, 3, 3)).astype(np.float32),
            "b": DRAW.uniform(-1.5, 1.5, 12).astype(np.float32),
        },
        [node("Conv", ["x", "w", "b"], ["conv"], "conv"), node("Relu", ["conv"], ["y"], "last")],
    ),
    "MatMul, Add and Clip": (
        (96, 10),
        {
            "w": DRAW.standard_normal((10, 12)).astype(np.float32),
            "b": DRAW.uniform(-1.5, 1.5, 12).astype(np.float32),
            "low": np.float32(0.0),
            "high": np.float32(6.0),
        },
        [
            node("MatMul", ["x", "w"], ["product"], "product"),
            node("Add", ["product", "b"], ["sum"], "sum"),
            node("Clip", ["sum", "low", "high"], ["y"], "last"),
        ],
    ),
    "Conv, LeakyRelu and Transpose": (
        (1, 4, 12, 12),
        {
            "w": DRAW.standard_normal((12, 4, 3, 3)).astype(np.float32),
            "b": DRAW.uniform(-1.5, 1.5, 12).astype(np.float32),
        },
        [
            node("Conv", ["x", "w", "b"], ["conv"], "conv"),
            node("LeakyRelu", ["conv"], ["leaky"], "leaky", alpha=0.1),
            node("Transpose", ["leaky"], ["y"], "last", perm=[0, 2, 3, 1]),
        ],
    ),
}


def channels_first(weights: dict[str, Array]) -> Array:
    """The weights with one row for each channel of the output, to be changed in place."""
    return weights["w"].T if weights["w"].ndim == 2 else weights["w"]


def one_weight(weights: dict[str, Array]) -> None:
    channels_first(weights)[5].flat[7] = 4.0


def exchanged(weights: dict[str, Array]) -> None:
    rows = channels_first(weights)
    rows[[2, 7]] = rows[[7, 2]]


def shifted(weights: dict[str, Array]) -> None:
    weights["b"][6] += np.float32(0.3)


FAULTS: Mapping[str, tuple[Change, str, Sequence[str]]] = {
    "one weight": (one_weight, "wrong_weights", ["w[", "] 4 in place of"]),
    "exchanged": (exchanged, "wrong_weights", ["channel 7 for those of channel 2"]),
    "shifted": (shifted, "wrong_constant", ["b[6]"]),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_the_weight_is_told_behind_what_follows_it(tmp_path, group, fault):
    change, label, words = fault
    found = cause_of(tmp_path, *GROUPS[group], change)
    assert found.label == label, found.sentence
    assert all(each in found.sentence for each in words)
    assert "has exactly what" in found.sentence


def test_one_value_of_a_bias_of_two_axes_is_no_weight(tmp_path):
    weights = {
        "w": DRAW.standard_normal((10, 24)).astype(np.float32),
        "heads": np.array([8, 9, 3, 8]),
        "b": DRAW.uniform(-1.5, 1.5, (3, 8)).astype(np.float32),
    }
    nodes = [
        node("MatMul", ["x", "w"], ["product"], "product"),
        node("Reshape", ["product", "heads"], ["parted"], "parted"),
        node("Add", ["parted", "b"], ["y"], "last"),
    ]

    def change(changed: dict[str, Array]) -> None:
        changed["b"][1, 6] = 4.0

    found = cause_of(tmp_path, (8, 9, 10), weights, nodes, change)
    assert found.label == "wrong_constant", found.sentence
    assert "exactly what Add last gives with b[1, 6] 4 in place of" in found.sentence
    assert found.evidence["places"] == [[1, 6]]


def test_an_exact_gain_is_no_product_that_is_nearly_zero(tmp_path):
    """A channel with a large bias hardly varies, so that an offset, and weights of 0, leave little
    of its error, too; the noise of other channels is no reason against the gain."""
    weights = {
        "w": DRAW.standard_normal((24, 24)).astype(np.float32),
        "b": DRAW.uniform(-0.5, 0.5, 24).astype(np.float32),
    }
    weights["w"][:, 14] *= np.float32(0.002)
    nodes = [
        node("MatMul", ["x", "w"], ["product"], "product"),
        node("Add", ["product", "b"], ["y"], "last"),
    ]

    def change(changed: dict[str, Array]) -> None:
        half = DRAW.random(changed["w"].shape) < 0.5  # another kernel's noise
        changed["w"][half] = np.nextafter(changed["w"], np.float32(np.inf))[half]
        changed["w"][:, 14] *= np.float32(0.7)
        changed["b"][14] *= np.float32(0.7)

    found = cause_of(tmp_path, (1, 10, 24), weights, nodes, change)
    assert "channel 14" in found.sentence
    assert "0.7 times" in found.sentence
