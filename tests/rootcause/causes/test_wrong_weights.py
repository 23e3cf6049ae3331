"""Weights in another order or in fewer bits, found by a real run of the op with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.model import Finding, FindingKind

Array = np.ndarray[Any, Any]


def model(path: Path, weight: Array, dilation: int = 1) -> Path:
    """Conv, then MatMul: the weight is of the one with as many axes."""
    rng = np.random.default_rng(3)
    conv = rng.standard_normal((6, 4, 3, 3)).astype(np.float32)
    matrix = rng.standard_normal((8, 8)).astype(np.float32)
    conv, matrix = (weight, matrix) if weight.ndim == 4 else (conv, weight)
    nodes = [
        helper.make_node(
            "Conv",
            ["x", "w"],
            ["c"],
            name="conv",
            kernel_shape=[3, 3],
            pads=[dilation] * 4,
            dilations=[dilation] * 2,
        ),
        helper.make_node("MatMul", ["c", "m"], ["y"], name="matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 8, 8])],
        [numpy_helper.from_array(conv, "w"), numpy_helper.from_array(matrix, "m")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def cause(folder: Path, right: Path, wrong: Path, device: StandIn) -> Finding:
    golden, dumped = folder / "golden", folder / "device"
    capture(CaptureRequest(right, golden, seed=5))
    capture(CaptureRequest(wrong, dumped, device=device, seed=5))
    result = compare(CompareRequest(right, golden, right, dumped))
    (found,) = (each for each in result.findings if each.kind is FindingKind.CAUSE)
    return found


def steps(bits: int) -> Callable[[Array], Array]:
    def rounded(weight: Array) -> Array:
        step = np.abs(weight).max() / (2 ** (bits - 1) - 1)
        found: Array = (np.round(weight / step) * step).astype(np.float32)
        return found

    return rounded


FOUR, TWO = (6, 4, 3, 3), (8, 8)
FAULTS: dict[str, tuple[tuple[int, ...], Callable[[Array], Array], str, str]] = {
    "transposed": (TWO, lambda w: w.T, "wrong_weights", "m changed: axes 0 and 1 swapped"),
    "turned": (FOUR, lambda w: w[:, :, ::-1, ::-1], "wrong_weights", "axes 2 and 3 reversed"),
    "mirrored": (FOUR, lambda w: w[..., ::-1], "wrong_weights", "axis 3 reversed"),
    "hwio": (
        FOUR,
        lambda w: w.transpose(2, 3, 1, 0).reshape(w.shape),
        "wrong_weights",
        "in the axis order [2, 3, 1, 0]",
    ),
    "int8": (FOUR, steps(8), "rounded_weights", "rounded to 8 bits by one scale"),
    "int4": (TWO, steps(4), "rounded_weights", "rounded to 4 bits by one scale"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_the_change_of_a_weight_is_named(tmp_path: Path, kind: str) -> None:
    shape, change, label, words = FAULTS[kind]
    weight = np.random.default_rng(11).standard_normal(shape).astype(np.float32)
    right = model(tmp_path / "right.onnx", weight)
    wrong = model(tmp_path / "wrong.onnx", np.ascontiguousarray(change(weight)))

    found = cause(tmp_path, right, wrong, StandIn.FP16)

    assert found.op == ("conv" if len(shape) == 4 else "matmul")
    assert (found.label, found.confidence) == (label, 0.95)
    assert words in found.sentence


def test_noise_on_weights_stays_unclassified(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    weight = rng.standard_normal(FOUR).astype(np.float32)
    other = (weight * (1 + 0.05 * rng.standard_normal(FOUR))).astype(np.float32)
    right = model(tmp_path / "right.onnx", weight)

    found = cause(tmp_path, right, model(tmp_path / "wrong.onnx", other), StandIn.FP16)

    assert found.label == "unclassified"


def test_a_wider_dilation_is_named(tmp_path: Path) -> None:
    weight = np.random.default_rng(11).standard_normal(FOUR).astype(np.float32)
    right = model(tmp_path / "right.onnx", weight)
    wrong = model(tmp_path / "wrong.onnx", weight, dilation=2)

    found = cause(tmp_path, right, wrong, StandIn.FP32)

    assert found.label == "wrong_setting"
    assert "dilations [2, 2] in place of [1, 1]" in found.sentence
