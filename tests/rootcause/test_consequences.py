"""What follows from NaN, infinities and overflows that a fault made is no fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.model import OpState

Array = np.ndarray
LARGEST = np.float32(65504)
X = np.random.default_rng(2).uniform(-1, 1, (8, 16)).astype(np.float32)


def block() -> onnx.ModelProto:
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.standard_normal((16, 16)).astype(np.float32) / 4,
        "v": rng.standard_normal((16, 16)).astype(np.float32) / 4,
        "ones": np.ones(16, np.float32),
        "two": np.array(2, np.float32),
    }
    steps = [
        ("product", "MatMul", "x w", {}),
        ("fault", "Tanh", "product", {}),
        ("norm", "LayerNormalization", "fault ones", {}),
        ("squares", "Pow", "fault two", {}),
        ("sums", "ReduceMean", "squares", {"axes": [-1]}),
        ("next", "MatMul", "norm v", {}),
        ("y", "Add", "next sums", {}),
    ]
    nodes = [
        helper.make_node(kind, inputs.split(), [name], name=name, **attrs)
        for name, kind, inputs, attrs in steps
    ]
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(X.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def saturated(value: Array) -> Array:
    """Half precision of a device without infinities and NaN."""
    whole = np.nan_to_num(value, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
    return whole.clip(-LARGEST, LARGEST).astype(np.float16)


def device_values(faults: dict[str, Callable[[Array], Array]]) -> dict[str, Array]:
    """What such a device gives, with *faults* in some ops; in a norm its squares overflow."""
    model = block()
    values = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer} | {"x": X}
    found: dict[str, Array] = {}
    for node in model.graph.node:
        piece = helper.make_graph(
            [node],
            "op",
            [onnx.ValueInfoProto(name=name) for name in node.input],
            [onnx.ValueInfoProto(name=name) for name in node.output],
        )
        alone = helper.make_model(piece, opset_imports=model.opset_import, ir_version=8)
        fed = {name: np.asarray(values[name], np.float32) for name in node.input}
        with np.errstate(all="ignore"):
            (made,) = ReferenceEvaluator(alone).run(None, fed)
            if node.op_type == "LayerNormalization":
                over = (np.square(fed["fault"]) > LARGEST).any(-1, keepdims=True)
                made = np.where(over, 0.0, made)
            made = faults.get(node.name, lambda value: value)(made)
        values[node.name] = found[node.name] = saturated(np.asarray(made, np.float32))
    return found


def origins(folder: Path, faults: dict[str, Callable[[Array], Array]]) -> list[str]:
    """The origins of a run against such a device; what is behind the first is inherited."""
    model = folder / "model.onnx"
    onnx.save_model(block(), str(model))
    np.save(folder / "x.npy", X)
    capture(CaptureRequest(model, folder / "golden", {"x": folder / "x.npy"}))
    (folder / "device").mkdir()
    for name, value in device_values(faults).items():
        np.save(folder / "device" / f"{name}.npy", value)
    data = compare(CompareRequest(model, folder / "golden", model, folder / "device"))
    named = [origin.op for origin in data.origins]
    assert all(data.states[op] is not OpState.ORIGIN for op in {"norm", "y"} - set(named))
    return named


def infinite_rows(value: Array) -> Array:
    return np.where(np.arange(8)[:, None] < 3, np.inf, value)


def larger_rows_behind(value: Array) -> Array:
    return np.where(np.arange(8)[:, None] < 3, value, 1.5 * value)


@pytest.mark.parametrize(
    "fault",
    [
        infinite_rows,
        lambda value: np.full_like(value, np.nan),
        lambda value: 1e6 * value,
        lambda value: 3e4 * value,
    ],
)
def test_only_the_fault_is_named(tmp_path: Path, fault: Callable[[Array], Array]) -> None:
    assert origins(tmp_path, {"fault": fault}) == ["fault"]


def test_a_fault_of_its_own_where_the_first_does_not_reach_is_named_too(tmp_path: Path) -> None:
    faults = {"fault": infinite_rows, "norm": larger_rows_behind}
    assert origins(tmp_path, faults) == ["fault", "norm"]
