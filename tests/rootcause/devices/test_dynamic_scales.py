"""Devices whose kernels quantise what they are given with scales of the values they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

from divergraph.comparison.compare_run import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from divergraph.rootcause.devices.dynamic_scales import DynamicScale, SharedBy
from divergraph.rootcause.options import MethodChoice
from graphstore.contract import RunData
from graphstore.model import Guilt, Verdict

RNG = np.random.default_rng(3)
ROWS = np.array([[0.0, 2.55, 1.003], [0.0, 0.255, 0.1003]], np.float32)


def perceptron(path: Path) -> Path:
    """Two MatMuls and a Gemm of 24 to 48 columns, with a Relu and a Tanh between them."""
    weights = {
        name: (RNG.standard_normal(shape) / 6).astype(np.float32)
        for name, shape in (("w0", (32, 48)), ("w1", (48, 24)), ("b1", (24,)), ("w2", (24, 40)))
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Gemm", ["b", "w1", "b1"], ["c"], name="second"),
        helper.make_node("Tanh", ["c"], ["d"], name="tanh"),
        helper.make_node("MatMul", ["d", "w2"], ["y"], name="last"),
    ]
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [16, 40])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(model, str(path))
    return path


def analysed(folder: Path, change: Callable[[onnx.ModelProto], None] | None = None) -> RunData:
    """Golden in floats against a model that ``quantize_dynamic`` made, changed where it runs."""
    golden, device, ran = (folder / f"{name}.onnx" for name in ("golden", "device", "ran"))
    np.save(folder / "x.npy", RNG.standard_normal((16, 32)).astype(np.float32))
    quantize_dynamic(str(perceptron(golden)), str(device))
    model = onnx.load_model(str(device))
    if change is not None:
        change(model)
    onnx.save_model(model, str(ran))
    for each in (golden, ran):
        capture(CaptureRequest(each, folder / each.stem, inputs={"x": folder / "x.npy"}))
    request = CompareRequest(golden, folder / "golden", device, folder / "ran")
    return compare(replace(request, method=MethodChoice.ROOT_CAUSE))


def spoilt(name: str, column: int) -> Callable[[onnx.ModelProto], None]:
    """Changes one column of a weight in integers to nine tenths."""

    def change(model: onnx.ModelProto) -> None:
        (held,) = (each for each in model.graph.initializer if each.name == name)
        value = numpy_helper.to_array(held).copy()
        value[:, column] = np.rint(0.9 * value[:, column])
        held.CopyFrom(numpy_helper.from_array(value, name))

    return change


def test_the_products_of_a_healthy_device_are_as_emulated(tmp_path: Path) -> None:
    data = analysed(tmp_path)
    splits = {each.op: each.split for each in data.comparisons if each.split is not None}
    known = [each for each in splits.values() if not each.failure]
    assert {each.guilt for each in known} == {Guilt.NONE}
    products = [each for each in known if each.introduced > 1e-4]
    assert len(products) == 3
    assert all(each.floor < 1.1 * each.introduced < 0.02 for each in products)


def test_a_tenth_less_of_one_column_is_seen(tmp_path: Path) -> None:
    data = analysed(tmp_path, spoilt("w1_quantized", 5))
    assert data.run.verdict is Verdict.DIVERGED
    assert data.origins[0].golden[0].op == "second"


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (DynamicScale(SharedBy.TENSOR, symmetric=False), [1.0, 0.1]),
        (DynamicScale(SharedBy.ROW, symmetric=False), [1.0, 0.1]),
        (DynamicScale(SharedBy.BATCH, symmetric=True), [2.55 * 50 / 127, 0.255 * 50 / 127]),
    ],
)
def test_what_shares_a_scale_is_rounded_to_its_steps(
    scale: DynamicScale, expected: list[float]
) -> None:
    assert scale(ROWS)[:, 2] == pytest.approx(expected, abs=1e-6)
    assert np.array_equal(scale(0 * ROWS), 0 * ROWS)
