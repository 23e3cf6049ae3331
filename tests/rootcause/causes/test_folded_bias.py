"""The bias that a compiler makes of all that a group adds, lost or added twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from fused_outputs import cause_of
from onnx import helper

pytestmark = pytest.mark.thorough

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(8)
node = helper.make_node
WEIGHTS: dict[str, Array] = {
    "w": DRAW.standard_normal((12, 4, 3, 3)).astype(np.float32),
    "b": DRAW.uniform(-1.5, 1.5, 12).astype(np.float32),
    "scale": DRAW.uniform(0.5, 1.5, (12, 1, 1)).astype(np.float32),
    "shift": DRAW.uniform(-1.5, 1.5, (12, 1, 1)).astype(np.float32),
}
SHAPE = (1, 4, 12, 12)


def nodes(last: str) -> Sequence[onnx.NodeProto]:
    """A convolution with a bias, scaled and shifted, and *last*."""
    return [
        node("Conv", ["x", "w", "b"], ["conv"], "conv"),
        node("Mul", ["conv", "scale"], ["scaled"], "scaled"),
        node("Add", ["scaled", "shift"], ["shifted"], "shifted"),
        node(last, ["shifted"], ["y"], "last"),
    ]


@pytest.mark.parametrize("last", ["Relu", "HardSwish"])
@pytest.mark.parametrize(
    ("factor", "label", "words"),
    [(0.0, "lost_bias", "is missing"), (2.0, "doubled_bias", "is added twice")],
)
def test_all_that_is_added_counts_as_one_bias(tmp_path, last, factor, label, words):
    def change(weights: dict[str, Array]) -> None:
        weights["b"] *= np.float32(factor)
        weights["shift"] *= np.float32(factor)

    found = cause_of(tmp_path, SHAPE, WEIGHTS, nodes(last), change)
    assert found.label == label, found.sentence
    assert f"has exactly what comes out if all that is added up to Add shifted {words}" in (
        found.sentence
    )


def test_one_of_two_biases_is_named_itself(tmp_path):
    def change(weights: dict[str, Array]) -> None:
        weights["b"][...] = 0.0

    found = cause_of(tmp_path, SHAPE, WEIGHTS, nodes("Relu"), change)
    assert "Conv conv lacks its bias b" in found.sentence
