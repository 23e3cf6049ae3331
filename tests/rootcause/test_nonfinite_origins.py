"""Infinities that healthy arithmetic makes, later healed, are not what breaks the outputs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, StandIn, capture
from graphstore.contract import RunData
from graphstore.model import Guilt, TensorIO, Verdict

TINY = 1e-5
"""Its square is 0 in float16."""


def model(path: Path, gain: float = 1.0, healed: bool = True) -> Path:
    """1/(1/x²), or 1/x² alone, added to a product whose weights are off by *gain*."""
    weights = np.random.default_rng(3).uniform(0.5, 1.5, (8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], name="square"),
        helper.make_node("Reciprocal", ["square"], ["inverse"], name="inverse"),
        helper.make_node("Reciprocal", ["inverse"], ["back"], name="back"),
        helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
        helper.make_node("Add", ["product", "back" if healed else "inverse"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])],
        [numpy_helper.from_array(weights * np.float32(gain), "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def compared(folder: Path, gain: float, healed: bool = True) -> RunData:
    x = np.random.default_rng(5).uniform(0.5, 1.5, (8, 8)).astype(np.float32)
    x[0, 0] = TINY
    np.save(folder / "x.npy", x)
    inputs = {"x": folder / "x.npy"}
    right = model(folder / "right.onnx", healed=healed)
    wrong = model(folder / "wrong.onnx", gain, healed)
    capture(CaptureRequest(right, folder / "golden", inputs))
    capture(CaptureRequest(wrong, folder / "device", inputs, device=StandIn.FP16))
    return compare(CompareRequest(right, folder / "golden", right, folder / "device"))


def test_a_healed_infinity_is_suspect_only(tmp_path: Path) -> None:
    data = compared(tmp_path, gain=1.0)

    assert data.run.verdict is not Verdict.DIVERGED
    assert [each.op for each in data.suspects] == ["inverse"]


def test_a_fault_beside_a_healed_infinity_is_the_only_origin(tmp_path: Path) -> None:
    data = compared(tmp_path, gain=1.5)

    assert [each.op for each in data.origins] == ["product"]
    assert [each.op for each in data.suspects] == ["inverse"]


@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_an_infinity_in_the_output_has_its_birth_among_the_origins(
    tmp_path: Path, gain: float
) -> None:
    data = compared(tmp_path, gain, healed=False)

    assert {each.op for each in data.origins} == {"inverse"} | ({"product"} if gain > 1 else set())


def masked(path: Path, large: float) -> Path:
    """A softmax of scores, masked by *large*: in the last row all are, which is still all alike."""
    allowed = np.ones((4, 8), np.bool_)
    allowed[:, 5:] = allowed[3] = False
    constants = {"allowed": allowed, "large": np.float32(large), "w": np.eye(8, dtype=np.float32)}
    nodes = [
        helper.make_node("Where", ["allowed", "x", "large"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["shares"], name="shares"),
        helper.make_node("MatMul", ["shares", "w"], ["y"], name="y"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_nan_that_a_mask_of_infinities_makes_in_the_output_has_an_origin(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32))
    inputs = {"x": tmp_path / "x.npy"}
    right = masked(tmp_path / "right.onnx", -1e9)
    infinite = masked(tmp_path / "infinite.onnx", -np.inf)
    capture(CaptureRequest(right, tmp_path / "golden", inputs))
    capture(CaptureRequest(infinite, tmp_path / "device", inputs))
    for file in (tmp_path / "device").glob("*.npy"):
        value = np.load(file)
        np.save(file, value.astype(np.float16) if value.dtype == np.float32 else value)
    data = compare(CompareRequest(right, tmp_path / "golden", right, tmp_path / "device"))

    assert data.run.verdict is Verdict.DIVERGED
    assert [each.op for each in data.origins] == ["shares"]


def suspicion(data, op):
    """How suspicious an op's output is."""
    (found,) = (
        item.split for item in data.comparisons if item.op == op and item.io is TensorIO.OUTPUT
    )
    return found


def test_what_makes_numbers_of_nothing_but_nan_is_suspect(sides):
    def nan(value):
        return np.full_like(value, np.nan)

    made = sides()
    made.overwrite("pool", nan)
    made.overwrite("flat", nan)
    data = compare(made.request)
    split = suspicion(data, "matmul")
    assert split.guilt is Guilt.SUSPECT
    assert split.suspicion == math.inf
    assert "matmul" in {each.op for each in data.suspects}
    assert "pool" in {each.op for each in data.origins}
    (finding,) = (each for each in data.findings if each.label == "nan_ignored")
    assert finding.op == "matmul"
