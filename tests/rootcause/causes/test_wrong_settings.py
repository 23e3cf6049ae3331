"""Attributes with a few values, and operands taken otherwise, found by a real run of the op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.model import Finding, FindingKind

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(5)
GRID = DRAW.uniform(-1.1, 1.1, (1, 6, 6, 2)).astype(np.float32)
PLACES = DRAW.integers(0, 4, (4, 12)).astype(np.int64)
LENGTHS = np.array([3, 9], np.int32)
HIDDEN = 8


def node(kind: str, operands: dict[str, Array], **attrs: Any) -> onnx.NodeProto:
    return helper.make_node(kind, ["x", *operands], ["y"], "op", **attrs)


def recurrent(lengths: Array) -> dict[str, Array]:
    draw = np.random.default_rng(8)
    shapes = {"w": (1, 3 * HIDDEN, 5), "r": (1, 3 * HIDDEN, HIDDEN), "b": (1, 6 * HIDDEN)}
    weights = {name: draw.normal(0, 0.4, shape) for name, shape in shapes.items()}
    return {**{k: v.astype(np.float32) for k, v in weights.items()}, "lengths": lengths}


def ran(folder: Path, made: onnx.NodeProto, operands: dict[str, Array], shape: list[int]) -> Path:
    """The model of one op behind a Tanh, in a file."""
    folder.mkdir()
    graph = helper.make_graph(
        [helper.make_node("Tanh", ["in"], ["x"], "before"), made],
        "g",
        [helper.make_tensor_value_info("in", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in operands.items()],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


def cause(folder: Path, right: Path, wrong: Path) -> Finding:
    capture(CaptureRequest(right, folder / "golden", seed=5))
    capture(CaptureRequest(wrong, folder / "device", device=StandIn.FP32, seed=5))
    sides = right, folder / "golden", right, folder / "device"
    result = compare(CompareRequest(*sides, root_cause=KNOWN))
    (found,) = (each for each in result.findings if each.kind is FindingKind.CAUSE)
    return found


SETTINGS: dict[str, tuple[str, list[int], dict[str, Array], dict[str, Any], dict[str, Any]]] = {
    "corners": ("GridSample", [1, 3, 7, 7], {"grid": GRID}, {}, {"align_corners": 1}),
    "padding": ("GridSample", [1, 3, 7, 7], {"grid": GRID}, {}, {"padding_mode": "border"}),
    "updates lost": (
        "ScatterElements",
        [4, 12],
        {"places": PLACES, "updates": DRAW.standard_normal((4, 12)).astype(np.float32)},
        {"axis": 0, "reduction": "add"},
        {"reduction": "none"},
    ),
    "triangle": ("Trilu", [6, 6], {}, {"upper": 1}, {"upper": 0}),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_another_choice_of_an_attribute_is_named(tmp_path: Path, kind: str) -> None:
    op, shape, operands, own, changed = SETTINGS[kind]
    right = ran(tmp_path / "right", node(op, operands, **own), operands, shape)
    wrong = ran(tmp_path / "wrong", node(op, operands, **{**own, **changed}), operands, shape)

    found = cause(tmp_path, right, wrong)

    (name,) = changed
    assert found.label == "wrong_setting"
    assert f"with {name} {changed[name]} in place of" in found.sentence


WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
TYPES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "pool": ("MaxPool", "AveragePool", {**WINDOW, "storage_order": 0}, WINDOW),
    "pool, pads counted": ("MaxPool", "AveragePool", WINDOW, {**WINDOW, "count_include_pad": 1}),
    "pool of all": ("GlobalAveragePool", "GlobalMaxPool", {}, {}),
    "sum of squares": ("ReduceL2", "ReduceSumSquare", {"keepdims": 0}, {"keepdims": 0}),
    "end": ("ArgMax", "ArgMin", {"axis": 3}, {"axis": 3}),
}


@pytest.mark.parametrize("kind", TYPES)
def test_another_type_of_op_is_named(tmp_path: Path, kind: str) -> None:
    """As where a compiler takes the kernel of a like op."""
    right, wrong, attrs, others = TYPES[kind]
    operands = {"axes": np.array([1, 3])} if right.startswith("Reduce") else {}
    shape = [2, 4, 9, 9]
    golden = ran(tmp_path / "right", node(right, operands, **attrs), operands, shape)
    device = ran(tmp_path / "wrong", node(wrong, operands, **others), operands, shape)

    found = cause(tmp_path, golden, device)

    assert found.label == "wrong_operation"
    assert f"exactly what {right} op gives computed as {wrong}" in found.sentence


def test_a_factor_next_to_nothing_is_a_missing_operand(tmp_path: Path) -> None:
    """Rounding of the device makes a beta of 1e-6 fit best, of all that are tried."""
    draw = np.random.default_rng(9)
    operands = {
        name: draw.standard_normal(shape).astype(np.float32)
        for name, shape in {"w": (32, 400), "c": (400,)}.items()
    }
    operands["c"] *= np.float32(0.05)
    lost = {**operands, "c": np.float32(1e-6) * operands["c"]}
    right = ran(tmp_path / "right", node("Gemm", operands, beta=1.0), operands, [2, 32])
    wrong = ran(tmp_path / "wrong", node("Gemm", lost, beta=1.0), lost, [2, 32])

    assert cause(tmp_path, right, wrong).label == "lost_bias"


@pytest.mark.parametrize(("right", "wrong"), [(1e-5, 0.05), (1e-3, 0.0)])
def test_another_epsilon_is_found_with_its_value(
    right: float, wrong: float, tmp_path: Path
) -> None:
    operands = {"scale": np.ones(6, np.float32)}
    paths = [
        ran(
            tmp_path / name,
            node("LayerNormalization", operands, epsilon=value),
            operands,
            [40, 6],
        )
        for name, value in (("right", right), ("wrong", wrong))
    ]

    found = cause(tmp_path, *paths)

    assert found.label == "wrong_epsilon"
    assert f"with epsilon {wrong:g} in place of {right:g}" in found.sentence


def test_lengths_of_sequences_that_were_not_taken_are_named(tmp_path: Path) -> None:
    made = node("GRU", recurrent(LENGTHS), hidden_size=HIDDEN)
    paths = [
        ran(tmp_path / name, made, recurrent(lengths), [9, 2, 5])
        for name, lengths in (("right", LENGTHS), ("wrong", np.full_like(LENGTHS, 9)))
    ]

    found = cause(tmp_path, *paths)

    assert found.label == "wrong_operand"
    assert "lengths all 9: no sequence ends before" in found.sentence
