"""Ops that keep a name and give another tensor: moved Transposes, originals written as several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from float32_device import KNOWN
from onnx import NodeProto, TensorProto, helper, numpy_helper

from divergraph.comparison import CompareRequest, compare
from divergraph.golden_capture import CaptureRequest, capture
from graphstore.contract import RunData
from graphstore.model import LineageRule, Reason, TensorIO, Verdict

RNG = np.random.default_rng(4)
node = helper.make_node


def written(
    path: Path, nodes: Sequence[NodeProto], weights: Mapping[str, np.ndarray], *, sizes: Sequence
) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m", "t"][: len(sizes)])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def compared(golden: Path, device: Path, x: np.ndarray) -> RunData:
    folder = device.parent
    np.save(folder / "x.npy", x.astype(np.float32))
    inputs = {"x": folder / "x.npy"}
    capture(CaptureRequest(golden, folder / "golden_run", inputs))
    capture(CaptureRequest(device, folder / "device_run", inputs))
    dumps = folder / "golden_run", folder / "device_run"
    return compare(CompareRequest(golden, dumps[0], device, dumps[1], root_cause=KNOWN))


def between_transposes(path: Path, gain: float = 1.0) -> Path:
    """Sizes are taken of a transposed tensor: the optimiser takes the Transposes out."""
    rng = np.random.default_rng(0)
    weights = {
        "one": np.int64(1),
        "w": rng.standard_normal((8, 16, 3)).astype(np.float32) / 7,
        "v": rng.standard_normal((8, 8, 3)).astype(np.float32) / 5,
    }
    weights["v"][3] *= np.float32(gain)
    nodes = [
        node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1]),
        node("Transpose", ["a"], ["turned"], "turn", perm=[0, 2, 1]),
        node("Relu", ["turned"], ["r"], "relu"),
        node("Shape", ["r"], ["sizes"], "shape"),
        node("Gather", ["sizes", "one"], ["length"], "length"),
        node("Cast", ["length"], ["number"], "number", to=TensorProto.FLOAT),
        node("Div", ["r", "number"], ["share"], "share"),
        node("Transpose", ["share"], ["back"], "back", perm=[0, 2, 1]),
        node("Conv", ["back", "v"], ["y"], "second", pads=[1, 1]),
    ]
    return written(path, nodes, weights, sizes=["n", 16, "t"])


def optimised(model: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    target = model.with_name("optimised.onnx")
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return target


@pytest.mark.parametrize(("gain", "origins"), [(1.0, []), (1.2, ["second"])])
def test_a_shape_in_front_of_a_moved_transpose(tmp_path: Path, gain, origins) -> None:
    golden = between_transposes(tmp_path / "golden.onnx")
    device = optimised(between_transposes(tmp_path / "device.onnx", gain))
    shape = next(each for each in onnx.load(str(device)).graph.node if each.name == "shape")
    assert list(shape.output) != ["sizes"]  # else this version moves nothing, and nothing is seen
    data = compared(golden, device, RNG.standard_normal((2, 16, 11)))
    assert [each.op for each in data.origins] == origins
    assert not data.suspects
    found = output(data, "shape")
    assert (found.golden, found.reason) == (None, Reason.UNMATCHED)


def norms(path: Path) -> Path:
    """x over its norm, which is one op."""
    nodes = [
        node("Tanh", ["x"], ["t"], "tanh"),
        node("ReduceL2", ["t"], ["n"], "norm", axes=[-1], keepdims=1),
        node("Div", ["t", "n"], ["d"], "over"),
        node("Exp", ["d"], ["y"], "exp"),
    ]
    return written(path, nodes, {}, sizes=[6, 40])


def norms_in_parts(path: Path, root: str = "Sqrt") -> Path:
    """As ``norms`` with the norm as sum of squares and root; the sum has the norm's names."""
    nodes = [
        node("Tanh", ["x"], ["t"], "tanh"),
        node("ReduceSumSquare", ["t"], ["n"], "norm", axes=[-1], keepdims=1),
        node(root, ["n"], ["n__7"], "norm__6"),
        node("Div", ["t", "n__7"], ["d"], "over"),
        node("Exp", ["d"], ["y"], "exp"),
    ]
    return written(path, nodes, {}, sizes=[6, 40])


def output(data: RunData, op: str):
    return next(each for each in data.comparisons if (each.op, each.io) == (op, TensorIO.OUTPUT))


def test_an_original_written_as_two_ops_has_the_last_ones_tensor(tmp_path: Path) -> None:
    golden = norms(tmp_path / "golden.onnx")
    data = compared(golden, norms_in_parts(tmp_path / "device.onnx"), RNG.normal(size=(6, 40)))
    assert data.run.verdict is Verdict.CLEAN
    assert not data.suspects
    assert output(data, "norm").reason is Reason.INNER_OF_SPLIT
    assert str(output(data, "norm__6").golden) == "norm:0"
    rules = {(each.device, each.original): each.rule for each in data.links}
    assert rules["norm__6", "norm"] is LineageRule.BETWEEN_TENSORS


def test_a_fault_in_a_part_is_found_at_the_end_of_the_original(tmp_path: Path) -> None:
    golden = norms(tmp_path / "golden.onnx")
    device = norms_in_parts(tmp_path / "device.onnx", root="Softplus")
    data = compared(golden, device, RNG.normal(size=(6, 40)))
    assert [each.op for each in data.origins] == ["norm__6"]


def test_a_faulty_op_of_the_same_name_and_type_keeps_its_counterpart(tmp_path: Path) -> None:
    """Its tensor is called otherwise, and nothing else has the golden values."""

    def net(path: Path, gain: float, tensor: str) -> Path:
        weight = np.random.default_rng(2).standard_normal((40, 40)).astype(np.float32)
        nodes = [
            node("MatMul", ["x", "w"], [tensor], "product"),
            node("Tanh", [tensor], ["t"], "tanh"),
            node("Exp", ["t"], ["y"], "exp"),
        ]
        return written(path, nodes, {"w": weight * np.float32(gain)}, sizes=[6, 40])

    golden = net(tmp_path / "golden.onnx", 1, "p")
    data = compared(golden, net(tmp_path / "device.onnx", -3, "p_1"), RNG.normal(size=(6, 40)))
    assert [each.op for each in data.origins] == ["product"]
    assert str(output(data, "product").golden) == "product:0"


@pytest.mark.parametrize("gain", [1.0, 1.2])
def test_dumped_values_contradict_a_name_where_another_op_has_them(tmp_path: Path, gain) -> None:
    """The device's first product is called as golden's second; all its tensors are renamed."""
    rng = np.random.default_rng(2)
    weights = {name: rng.standard_normal((40, 40)).astype(np.float32) / 6 for name in "vw"}

    def net(path: Path, names: tuple[str, str], mark: str, by: float) -> Path:
        nodes = [
            node("MatMul", ["x", "w"], [f"p{mark}"], names[0]),
            node("Tanh", [f"p{mark}"], [f"t{mark}"], f"tanh{mark}"),
            node("MatMul", [f"t{mark}", "v"], [f"q{mark}"], names[1]),
            node("Exp", [f"q{mark}"], ["y"], "exp"),
        ]
        return written(path, nodes, {**weights, "v": weights["v"] * np.float32(by)}, sizes=[6, 40])

    golden = net(tmp_path / "golden.onnx", ("one", "two"), "", 1.0)
    device = net(tmp_path / "device.onnx", ("two", "three"), "_d", gain)
    data = compared(golden, device, RNG.normal(size=(6, 40)))
    if gain == 1.0:
        assert data.run.verdict is Verdict.CLEAN
        assert str(output(data, "two").golden) == "one:0"
        assert str(output(data, "three").golden) == "two:0"
    else:
        assert "three" in [each.op for each in data.origins]
