"""Devices that compute exponentials, roots and their like only nearly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.model import Verdict

Array = np.ndarray
LAYERS = 5


def layers() -> list[onnx.NodeProto]:
    """Five times ``sqrt(exp(s) * s + 1)`` of ``s = sigmoid(h)``, then a softmax."""
    nodes, last = [], "x"
    for k in range(LAYERS):
        steps = [
            ("Sigmoid", [last]),
            ("Exp", [f"sigmoid{k}"]),
            ("Mul", [f"exp{k}", f"sigmoid{k}"]),
            ("Add", [f"mul{k}", "one"]),
            ("Sqrt", [f"add{k}"]),
        ]
        for kind, inputs in steps:
            name = f"{kind.lower()}{k}"
            nodes.append(helper.make_node(kind, inputs, [name], name=name))
        last = f"sqrt{k}"
    return [*nodes, helper.make_node("Softmax", [last], ["y"], name="softmax", axis=-1)]


def softmax(value: Array) -> Array:
    found = np.exp(value - value.max(-1, keepdims=True))
    return found / found.sum(-1, keepdims=True)


COMPUTED: dict[str, Callable[..., Array]] = {
    "Sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "Mul": np.multiply,
    "Exp": np.exp,
    "Add": np.add,
    "Sqrt": np.sqrt,
    "Softmax": softmax,
}


@pytest.fixture
def compared(tmp_path: Path) -> Callable[..., RunData]:
    """Compares with a device whose functions are *off* by op type, and changed by *fault*; what
    they give is rounded to *dtype*."""

    def run(
        off: dict[str, float],
        fault: Callable[[str, Array], Array] = lambda _, value: value,
        dtype: type = np.float32,
    ) -> RunData:
        graph = helper.make_graph(
            layers(),
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 64])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path, feed = tmp_path / "net.onnx", tmp_path / "x.npy"
        onnx.save_model(model, str(path))
        values = {"x": np.random.default_rng(3).normal(0, 1, (4, 64)).astype(np.float32)}
        values["one"] = np.float32(1)
        np.save(feed, values["x"])
        capture(CaptureRequest(path, tmp_path / "golden", {"x": feed}))
        capture(CaptureRequest(path, tmp_path / "device", {"x": feed}))
        for node in graph.node:
            value = COMPUTED[node.op_type](*(values[name] for name in node.input))
            size = np.float32(off.get(node.op_type, 0.0))
            value = fault(node.name, value * (1 + size * np.sin(value * 37 + 1)))
            values[node.output[0]] = value.astype(dtype).astype(np.float32)
            (dumped,) = (tmp_path / "device").glob(f"{node.name}.0.*.npy")
            np.save(dumped, values[node.output[0]])
        return compare(CompareRequest(path, tmp_path / "golden", path, tmp_path / "device"))

    return run


@pytest.mark.parametrize("size", [3e-6, 1e-5, 4e-5])
def test_functions_that_are_all_off_a_little_are_no_fault(compared, size):
    data = compared(dict.fromkeys(("Sigmoid", "Exp", "Sqrt", "Softmax"), size))
    assert data.run.verdict is not Verdict.DIVERGED
    assert not data.suspects
    assert set(data.run.analysis.arithmetic.functions) == {"Sigmoid", "Exp", "Sqrt", "Softmax"}
    assert any("are approximated" in warning for warning in data.run.warnings)


def test_one_kind_may_be_off_while_others_are_exact(compared):
    data = compared({"Exp": 1e-5})
    assert not data.origins
    assert set(data.run.analysis.arithmetic.functions) == {"Exp"}


def test_a_fault_in_one_of_them_is_found_all_the_same(compared):
    data = compared({"Exp": 1e-5}, lambda name, value: value * 1.001 if name == "exp2" else value)
    assert [origin.op for origin in data.origins] == ["exp2"]


def test_faults_of_one_or_two_ops_are_no_way_to_compute(compared):
    def weaker(name: str, value: Array) -> Array:
        return value * 1.00002 if name in ("exp1", "exp3") else value

    data = compared({}, weaker)
    assert {origin.op for origin in data.origins} == {"exp1", "exp3"}
    assert not data.run.analysis.arithmetic.functions


def test_what_is_far_off_in_all_ops_of_a_type_is_a_fault(compared):
    data = compared({"Sqrt": 1e-3})
    assert len(data.origins) == LAYERS
    assert not data.run.analysis.arithmetic.functions


def test_what_all_of_several_ops_lose_in_16_bits_is_how_they_are_computed(compared):
    data = compared({"Sigmoid": 3e-3}, dtype=np.float16)  # six units, as short polynomials are off
    assert data.run.verdict is not Verdict.DIVERGED
    assert set(data.run.analysis.arithmetic.functions) == {"Sigmoid"}


def test_what_a_single_op_loses_so_is_a_fault(compared):
    data = compared({"Softmax": 3e-3}, dtype=np.float16)
    assert [origin.op for origin in data.origins] == ["softmax"]
