"""Exchanged slices of a weight where the output does not show which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from fused_outputs import cause_of
from onnx import helper

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(8)
node = helper.make_node
SOFTMAX: tuple[tuple[int, ...], dict[str, Array], Sequence[onnx.NodeProto]] = (
    (1, 24),
    {
        "w": (0.3 * DRAW.standard_normal((24, 6))).astype(np.float32),
        "b": DRAW.uniform(-0.5, 0.5, 6).astype(np.float32),
    },
    [
        node("MatMul", ["x", "w"], ["product"], "product"),
        node("Add", ["product", "b"], ["sum"], "sum"),
        node("Softmax", ["sum"], ["y"], "last"),
    ],
)
MEAN: tuple[tuple[int, ...], dict[str, Array], Sequence[onnx.NodeProto]] = (
    (1, 8, 10, 10),
    {"w": DRAW.standard_normal((8, 1, 3, 3)).astype(np.float32)},
    [
        node("Conv", ["x", "w"], ["conv"], "conv", group=8),
        node("Relu", ["conv"], ["relu"], "relu"),
        node("GlobalAveragePool", ["relu"], ["mean"], "mean"),
        node("LpNormalization", ["mean"], ["y"], "last", axis=1, p=2),
    ],
)


def exchanged(axis: int, first: int, second: int):
    def change(weights: Mapping[str, Array]) -> None:
        rows = np.moveaxis(weights["w"], axis, 0)
        rows[[first, second]] = rows[[second, first]]

    return change


@pytest.mark.parametrize(
    ("group", "axis"), [(SOFTMAX, 1), (MEAN, 0)], ids=["one sample and Softmax", "mean and norm"]
)
def test_two_slices_exchanged_are_told_from_one_sample(tmp_path, group, axis):
    found = cause_of(tmp_path, *group, exchanged(axis, 1, 4))
    assert found.label == "wrong_weights", found.sentence
    assert f"indices 1 and 4 of axis {axis} of w exchanged" in found.sentence
    assert found.evidence["exchanged"] == [1, 4]
    assert found.confidence >= 0.9


def test_other_weights_in_all_places_are_no_exchange(tmp_path):
    def other(weights: Mapping[str, Array]) -> None:
        weights["w"][...] = np.random.default_rng(1).standard_normal(weights["w"].shape)

    found = cause_of(tmp_path, *SOFTMAX, other)
    assert "exchanged" not in found.sentence
