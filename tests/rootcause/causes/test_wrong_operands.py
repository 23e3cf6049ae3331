"""Operands not taken whole or in another order, and operations mixed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float32_device import KNOWN
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from divergraph.rootcause.causes.evidence import FaultEvidence
from divergraph.rootcause.causes.rules import explain
from graphstore.model import Finding, FindingKind, InputRef, Op

Array = np.ndarray[Any, Any]
WIDE = 12
DRAW = np.random.default_rng(3)
CONSTANTS: Mapping[str, Array] = {
    "w": DRAW.normal(0, 0.3, (16, 8, 3, 3)).astype(np.float32),
    "b": DRAW.uniform(0.3, 1, 16).astype(np.float32),
    "start": np.array([1], np.int64),
    "end": np.array([9], np.int64),
    "axis": np.array([2], np.int64),
    "flat": np.array([9, -1, 16], np.int64),
    "input": DRAW.normal(0, 0.4, (1, 4 * WIDE, 16)).astype(np.float32),
    "state": DRAW.normal(0, 0.4, (1, 4 * WIDE, WIDE)).astype(np.float32),
    "biases": DRAW.normal(0, 0.4, (1, 8 * WIDE)).astype(np.float32),
    "epsilon": np.array(0.5, np.float32),
}
NODES = (
    helper.make_node("Conv", ["x", "w", "b"], ["conv"], "conv", pads=[1] * 4),
    helper.make_node("Slice", ["conv", "start", "end", "axis"], ["cut"], "cut"),
    helper.make_node("Transpose", ["cut"], ["last"], "last", perm=[0, 2, 3, 1]),
    helper.make_node("Reshape", ["last", "flat"], ["rows"], "rows"),
    helper.make_node("LSTM", ["rows", "input", "state", "biases"], ["y"], "lstm", hidden_size=WIDE),
)


def model(path: Path, changed: Mapping[str, Array]) -> Path:
    graph = helper.make_graph(
        NODES,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 10, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in {**CONSTANTS, **changed}.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def cause(folder: Path, changed: Mapping[str, Array]) -> Finding:
    """What is said of a device that computes with these constants in place of the model's."""
    right, wrong = model(folder / "right.onnx", {}), model(folder / "wrong.onnx", changed)
    capture(CaptureRequest(right, folder / "golden", seed=5))
    capture(CaptureRequest(wrong, folder / "device", device=StandIn.FP32, seed=5))
    sides = right, folder / "golden", right, folder / "device"
    result = compare(CompareRequest(*sides, root_cause=KNOWN))
    (found,) = (each for each in result.findings if each.kind is FindingKind.CAUSE)
    return found


def without_the_last_inputs() -> Array:
    weight = CONSTANTS["w"].copy()
    weight[:, 5:] = 0
    return weight


def without_a_column() -> Array:
    weight = CONSTANTS["w"].copy()
    weight[..., 2] = 0
    return weight


def other_gates(name: str) -> Array:
    parts = np.split(CONSTANTS[name], 8 if name == "biases" else 4, axis=1)
    order = (0, 2, 3, 1, 4, 6, 7, 5) if name == "biases" else (0, 2, 3, 1)
    return np.concatenate([parts[place] for place in order], axis=1)


OPERANDS: dict[str, tuple[Mapping[str, Array], str, str]] = {
    "end of a sum": (
        {"w": without_the_last_inputs()},
        "sum_cut_short",
        "last 3 of 8 input",
    ),
    "window": ({"w": without_a_column()}, "wrong_weights", "place 2 of axis 3 of the window w"),
    "bias moved": ({"b": np.roll(CONSTANTS["b"], 1)}, "wrong_operand", "b moved by +1 channel"),
    "gates": (
        {name: other_gates(name) for name in ("input", "state", "biases")},
        "wrong_weights",
        "gates of its weights in the order [0, 2, 3, 1]",
    ),
    "recurrent bias": (
        {"biases": np.zeros_like(CONSTANTS["biases"])},
        "lost_bias",
        "all zeros in place of its bias biases",
    ),
    "slice": (
        {"start": CONSTANTS["start"] + 1, "end": CONSTANTS["end"] + 1},
        "wrong_operand",
        "start and end one higher",
    ),
}


@pytest.mark.parametrize("kind", OPERANDS)
def test_the_change_of_an_operand_is_named(tmp_path: Path, kind: str) -> None:
    changed, label, words = OPERANDS[kind]

    found = cause(tmp_path, changed)

    assert found.label == label
    assert words in found.sentence
    assert found.confidence >= 0.9


A = DRAW.uniform(0.5, 2, (4, 6, 6)).astype(np.float32)
B = DRAW.uniform(0.5, 2, (4, 6, 6)).astype(np.float32)
V = DRAW.uniform(0.5, 2, 6).astype(np.float32)


def softmax(values: Array, axes: tuple[int, ...]) -> Array:
    powers = np.exp(values - values.max())
    found: Array = powers / powers.sum(axis=axes, keepdims=True)
    return found


OPERATIONS: dict[str, tuple[Op, Mapping[str, Array], Array, Array, str]] = {
    "order": (Op("o", "o", "Sub"), {"a": A, "b": B * A}, A - B * A, B * A - A, "other way round"),
    "product": (Op("o", "o", "Add"), {"a": A, "b": B}, A + B, A * B, "Mul of the same operands"),
    "broadcast": (
        Op("o", "o", "Mul"),
        {"a": A, "v": V},
        A * V,
        A * V[:, None],
        "v taken along axis 1",
    ),
    "choice": (
        Op("o", "o", "Where"),
        {"test": A > B, "a": A, "b": B},
        np.where(A > B, A, B),
        np.where(A > B, B, A),
        "the other way round",
    ),
    "softmax": (
        Op("o", "o", "Softmax", attrs={"axis": 1}),
        {"a": A},
        softmax(A, (1,)),
        softmax(A, (1, 2)),
        "over axes 1, 2 together",
    ),
}


def test_an_activation_applied_twice_is_no_scale() -> None:
    """A Sigmoid of a Sigmoid is nearly a line, which would fit as a scale and a zero point."""
    x = DRAW.standard_normal((8, 40)).astype(np.float32)
    op = Op("s", "s", "Sigmoid", inputs=(InputRef("x"),))

    def sigmoid(values: Array) -> Array:
        found: Array = (1 / (1 + np.exp(-values))).astype(np.float32)
        return found

    found = explain(
        FaultEvidence(
            "s",
            0,
            sigmoid(sigmoid(x)),
            sigmoid(x),
            1e-4,
            {"x": x},
            ops=(op,),
            reweigh=lambda trials: [sigmoid(trial["x"]) for trial in trials],
        )
    )

    assert found is not None
    assert found.label == "applied_twice"


@pytest.mark.parametrize("kind", OPERATIONS)
def test_another_operation_of_the_same_operands_is_named(kind: str) -> None:
    op, inputs, right, wrong, words = OPERATIONS[kind]
    taking = replace(op, inputs=tuple(InputRef(name) for name in inputs))
    noise = 1 + 1e-4 * np.random.default_rng(7).standard_normal(wrong.shape)
    device = (wrong * noise).astype(np.float32)

    found = explain(
        FaultEvidence("o", 0, device, right.astype(np.float32), 2e-4, inputs, ops=(taking,))
    )

    assert found is not None
    assert found.label == "wrong_operation"
    assert words in found.sentence


def test_one_output_does_not_tell_which_products_are_missing(tmp_path: Path) -> None:
    """Some number of products left out gives any single value."""
    weight = DRAW.standard_normal((1, 64, 1)).astype(np.float32)
    bias = np.float32([0.3])
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "weight", "bias"], ["y"], name="head")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1])],
        [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")],
    )
    for side, factor in (("golden", 1.0), ("device", 0.8)):
        for place, value in enumerate((weight, bias)):
            scaled = numpy_helper.from_array(value * np.float32(factor), ("weight", "bias")[place])
            graph.initializer[place].CopyFrom(scaled)
        built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(built, tmp_path / f"{side}.onnx")
        capture(CaptureRequest(tmp_path / f"{side}.onnx", tmp_path / side, seed=5))
    model = tmp_path / "golden.onnx"
    found = compare(CompareRequest(model, tmp_path / "golden", model, tmp_path / "device"))
    assert [each.op for each in found.origins] == ["head"]
    assert "sum_cut_short" not in [each.label for each in found.findings]
